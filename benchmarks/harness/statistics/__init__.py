"""Statistics of samples: pure numpy, values in and values out; what cannot be known is None, and says why."""

from benchmarks.harness.statistics.primitives import (
    TRIM,
    FloatArray,
    Samples,
    autocorrelation,
    block_half_width,
    concordance,
    cv,
    half_width,
    relative_standard_error,
    t_975,
    trimmed_mean,
)

__all__ = [
    "TRIM",
    "FloatArray",
    "Samples",
    "autocorrelation",
    "block_half_width",
    "concordance",
    "cv",
    "half_width",
    "relative_standard_error",
    "t_975",
    "trimmed_mean",
]
