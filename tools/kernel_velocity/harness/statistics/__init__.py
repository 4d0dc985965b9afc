"""Statistics of samples: pure numpy, values in and values out; what cannot be known is None, and says why.

`primitives` are plain floats for hot loops; everything else returns a frozen value with its warnings.
"""

from kernel_velocity.harness.statistics.dependence import Drift, drift, effective_sample_size
from kernel_velocity.harness.statistics.figures import FIGURES, describe
from kernel_velocity.harness.statistics.primitives import (
    TRIM,
    FloatArray,
    Samples,
    autocorrelation,
    block_half_width,
    concordance,
    cv,
    half_width,
    long_blocks,
    relative_standard_error,
    t_975,
    trimmed_mean,
)
from kernel_velocity.harness.statistics.resampling import (
    RESAMPLES,
    bca_interval,
    block_bootstrap_interval,
    block_length,
    bootstrap_distribution,
    mean_of_rows,
    median_of_rows,
    trimmed_mean_of_rows,
)
from kernel_velocity.harness.statistics.shape import (
    LorenzCurve,
    OutlierClass,
    Outliers,
    gini,
    lorenz_curve,
    modality,
    outliers,
)
from kernel_velocity.harness.statistics.slope import Slope, seconds_per_call
from kernel_velocity.harness.statistics.values import Figure, Interval

__all__ = [
    "FIGURES",
    "RESAMPLES",
    "TRIM",
    "Drift",
    "Figure",
    "FloatArray",
    "Interval",
    "LorenzCurve",
    "OutlierClass",
    "Outliers",
    "Samples",
    "Slope",
    "autocorrelation",
    "bca_interval",
    "block_bootstrap_interval",
    "block_half_width",
    "block_length",
    "bootstrap_distribution",
    "concordance",
    "cv",
    "describe",
    "drift",
    "effective_sample_size",
    "gini",
    "half_width",
    "long_blocks",
    "lorenz_curve",
    "mean_of_rows",
    "median_of_rows",
    "modality",
    "outliers",
    "relative_standard_error",
    "seconds_per_call",
    "t_975",
    "trimmed_mean",
    "trimmed_mean_of_rows",
]
