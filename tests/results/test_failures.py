"""Failure lines: what is written is read back, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.engine.spool import append_failure
from kernel_velocity.engine.telemetry import TelemetryError
from kernel_velocity.results.lines import Failure, decode_failure, encode_failure, failures_spool

texts = st.text(st.characters(), max_size=30)  # lone surrogates too: the error of a kernel may hold anything


@given(texts, st.lists(texts, max_size=3), st.integers(0, 2**32), texts, st.booleans(), st.booleans())
def test_failure_line_round_trips(benchmark, params, time, error, died, skipped):  # noqa: PLR0917 - hypothesis' order
    failure = Failure(
        benchmark=benchmark, params=tuple(params), time=float(time), error=error, died=died, skipped=skipped
    )
    line = encode_failure(failure)
    assert len(line.splitlines()) == 1
    assert line.isascii()
    assert decode_failure(line) == failure


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "an object is wanted, got list"),
        ('{"b": 1, "p": [], "t": 1, "error": ""}', "strings are wanted"),
        ('{"b": "a", "p": "x", "t": 1, "error": ""}', "a list of strings"),
        ('{"b": "a", "p": [], "t": true, "error": ""}', "a Unix time"),
        ('{"b": "a", "p": [], "t": NaN, "error": ""}', "a Unix time"),
        ('{"b": "a", "p": [], "t": 1e300, "error": ""}', "a Unix time"),
    ],
)
def test_malformed_failure_line_is_refused(line, reason):
    with pytest.raises(TelemetryError, match=reason):
        decode_failure(line)


def test_na_written_by_the_suite_has_its_reason(tmp_path):
    path = failures_spool(tmp_path, "env", "c" * 40)
    error = NotImplementedError("driver too old")
    append_failure(path, benchmark="k", params=("native", "c"), when=1.5, error=error)
    (line,) = path.read_text().splitlines()
    assert decode_failure(line) == Failure(
        benchmark="k", params=("native", "c"), time=1.5, error="driver too old", skipped=True
    )
