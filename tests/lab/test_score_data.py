"""Files of real series: both formats, by content, and what is wrong with a bad one."""

import gzip
import json
import math

import numpy as np
import pytest

from kernel_velocity.errors import ResultsError
from kernel_velocity.lab import detector_data

PLAIN = {"a": [1.0, None, 2], "b": [3.0]}
ANNOTATED = {"s1": {"values": [1.0, 2.0, 0, -1.0], "annotations": {"x": [2], "y": []}, "higher_is_better": None}}


def written(tmp_path, document, name="data.json"):
    path = tmp_path / name
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    return path


@pytest.mark.parametrize("name", ["data.json", "data.json.gz"])
def test_plain_series(tmp_path, name):
    (found,) = detector_data.read([written(tmp_path, PLAIN, name)])
    assert (found.name, found.annotated) == ("data", ())
    first, second = found.series
    assert first.logs == (0.0, None, math.log(2))
    assert (second.name, second.annotations) == ("b", None)
    assert first.known.tolist() == [0.0, math.log(2)]


def test_annotated_series(tmp_path):
    (found,) = detector_data.read([written(tmp_path, ANNOTATED | PLAIN)])
    (series,) = found.annotated
    assert series.annotations == (frozenset({2}), frozenset())
    assert series.logs == (0.0, math.log(2), None, None)  # neither time nor rate
    assert len(found.series) == 3


def test_the_name_of_a_file_does_not_say_what_is_in_it(tmp_path):
    path = written(tmp_path, PLAIN, "a.json.gz")
    assert detector_data.read([path.rename(tmp_path / "plain.json")])[0].series[1].known == pytest.approx(np.log([3.0]))


def test_numbers_that_no_float_holds(tmp_path):
    (found,) = detector_data.read([written(tmp_path, b'{"a": [1' + b"0" * 400 + b", Infinity, NaN]}")])
    assert found.series[0].logs == (pytest.approx(400 * math.log(10)), None, None)


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (b"", "no file of series"),
        (b"{", "no file of series"),
        (b"\x1f\x8bnot really", "no file of series"),
        (gzip.compress(b'{"a": [1]}', mtime=0)[:-9], "no file of series"),
        (b"\xff\xfe", "no file of series"),
        ([1, 2], r"wanted an object of series by name, got \[1, 2\]"),
        ({}, "wanted an object of series by name, got {}"),
        ({"a": 3}, "a: wanted a list of values, or an object with `values`, got 3"),
        ({"a": {"value": []}}, "a: wanted a list of values"),
        ({"a": []}, "a: no values"),
        ({"a": [1, "2"]}, "a: value 1 is '2'; wanted a number or null"),
        ({"a": [True]}, "a: value 0 is True"),
        ({"a": ["x" * 500]}, r"x\.\.\.; wanted"),
        ({"a": {"values": [1], "annotations": []}}, "a: annotations: wanted an object"),
        ({"a": {"values": [1], "annotations": {}}}, "a: annotations: wanted an object"),
        (
            {"a": {"values": [1], "annotations": {"x": 0}}},
            "annotations of x: wanted a list of indices from 0 to 0, got 0",
        ),
        ({"a": {"values": [1], "annotations": {"x": [1]}}}, r"annotations of x: .* got \[1\]"),
        ({"a": {"values": [1], "annotations": {"x": [-1]}}}, "annotations of x"),
        ({"a": {"values": [1], "annotations": {"x": [0.0]}}}, "annotations of x"),
        ({"a": {"values": [1, 1], "annotations": {"x": [True]}}}, "annotations of x"),
    ],
)
def test_a_bad_file_is_one_line_that_says_where(tmp_path, document, complaint):
    path = written(tmp_path, document)
    with pytest.raises(ResultsError, match=complaint) as caught:
        detector_data.read([path])
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ResultsError, match="no file of series"):
        detector_data.read([tmp_path / "none.json"])
    with pytest.raises(ResultsError, match="no file of series"):
        detector_data.read([tmp_path])
