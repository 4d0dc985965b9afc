"""Accuracy and tolerances: figures as computed one element after the other. Each fault is caught and named."""

import itertools
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.problem import accuracy as accuracy_module
from kernel_velocity.problem.accuracy import (
    INTEGERS,
    NAMES,
    Tolerance,
    accuracy,
    blocks,
    compare,
    compare_outputs,
    in_words,
    parse_tolerance,
    tolerance_of,
    verdict,
)


@pytest.mark.parametrize(
    ("dtype", "allowed"),
    [
        ("float32", 1e-5),
        ("float64", 1e-7),
        ("float16", 2**-9),
        ("bfloat16", 2**-6),
        *dict.fromkeys(INTEGERS, 0).items(),
    ],
)
def test_tolerance_of_each_dtype(dtype, allowed):
    default = tolerance_of(f"torch.{dtype}")
    assert (default.rtol, default.atol) == (allowed, allowed)
    assert dtype in default.source


@pytest.mark.parametrize(
    ("text", "rtol", "atol"),
    [
        ("1e-3", 1e-3, 1e-3),
        (" 0 ", 0, 0),
        ("rtol=1e-3,atol=1e-5", 1e-3, 1e-5),
        ("atol=2, rtol=.5", 0.5, 2),
    ],
)
def test_parse_tolerance(text, rtol, atol):
    result = parse_tolerance(text)
    assert (result.rtol, result.atol) == (rtol, atol)


figures = st.floats(0, 1e300)


@given(rtol=figures, atol=figures)
def test_tolerance_round_trip(rtol, atol):
    parsed = parse_tolerance(f"rtol={rtol!r},atol={atol!r}")
    assert str(parsed) == f"rtol={rtol!r},atol={atol!r}"
    assert (parsed.rtol, parsed.atol) == (rtol, atol)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-1e-3", "-1e-3 is not a finite number of at least 0"),
        ("inf", "inf is not a finite number"),
        ("rtol=", "'' is not a number"),
        ("rtol=1,rtol=2", "'rtol=2' is not understood"),
        ("rtol=1,2", "'2' is not understood"),
    ],
)
def test_malformed_tolerance_is_refused(text, message):
    with pytest.raises(ValueError, match="wanted a number") as caught:
        parse_tolerance(text)
    assert str(caught.value).startswith(f"tolerance {text!r}: {message}")


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf])
@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_meaningless_tolerance_is_refused(name, value):
    with pytest.raises(ValueError, match=f"tolerance: {name} is .*at least 0 is wanted"):
        Tolerance(**{"rtol": 0.0, "atol": 0.0, "source": "", name: value})


def test_unknown_dtype_is_refused():
    with pytest.raises(ValueError, match="none is known for dtype complex64; there are float16"):
        tolerance_of("complex64")


torch = pytest.importorskip("torch", reason="tensors are compared")
np = pytest.importorskip("numpy")

ROOT = Path(__file__).parents[2]
EXACT = Tolerance(rtol=0.0, atol=0.0, source="exact")
NAN, INF = math.nan, math.inf
single = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**100), max_value=2.0**100)


def floats(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


def within(rtol=0.0, atol=0.0):
    return Tolerance(rtol=rtol, atol=atol, source="as given")


@pytest.mark.parametrize(
    ("dtype", "allowed"),
    [("float16", 1e3 * 2**-10), ("float32", 1e3 * 2**-23), ("float64", 1e3 * 2**-52), ("int32", 0)],
)
def test_epsilon_follows_the_dtype_of_the_output(dtype, allowed):
    wanted = torch.full((2,), 8, dtype=getattr(torch, dtype))
    result = compare(wanted, wanted + (1 if dtype == "int32" else 1.5 * allowed), "epsilon")
    assert (result["right"], result["rtol"], result["atol"]) == (False, 0.0, allowed)
    assert compare(wanted, wanted + (0 if dtype == "int32" else allowed / 2), parse_tolerance("epsilon"))["right"]


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32])
def test_unsigned_output_of_signed_reference(dtype):
    wanted, got = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4]).to(dtype)
    result = compare(wanted, got, EXACT, dtype=str(dtype).removeprefix("torch."))
    assert (result["wrong"], result["first_wrong"], result["off_by_one"]) == (1, 2, 1)


def test_overflowed_sum_is_the_largest_number(monkeypatch):
    monkeypatch.setattr(accuracy_module, "BLOCK_CPU", 2)
    huge = floats(1e308, 1e308, -1e308, -1e308, dtype=torch.float64)
    assert compare(huge, huge / -2)["total_error"] == sys.float_info.max


@given(
    st.lists(st.tuples(single, single), min_size=1, max_size=30),
    st.sampled_from([0.0, 1e-5, 0.5]),
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([1, 4, 100]),
)
def test_float_figures_equal_elementwise_ones(pairs, rtol, atol, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accuracy_module, "BLOCK_CPU", size)
        result = compare(floats(*(e for e, _ in pairs)), floats(*(a for _, a in pairs)), within(rtol, atol))
    errors = [abs(a - e) for e, a in pairs]
    relative = [error / max(abs(e), 2.0**-126) for error, (e, _) in zip(errors, pairs, strict=True)]
    ulps = [error / float(np.spacing(np.float32(abs(e)))) for error, (e, _) in zip(errors, pairs, strict=True)]
    wrong = [i for i, (e, a) in enumerate(pairs) if abs(a - e) > atol + rtol * abs(e)]
    assert (result["wrong"], result["right"]) == (len(wrong), not wrong)
    assert result["first_wrong"] == (wrong[0] if wrong else None)
    assert result["max_absolute_error"] == max(errors)
    assert result["max_relative_error"] == max(relative)
    assert result["max_ulp_error"] == max(ulps)
    assert result["max_error"] == max(map(min, errors, relative))
    assert result["passes_1e5"] is (max(map(min, errors, relative)) <= 1e-5)
    assert result["total_error"] == pytest.approx(math.fsum(errors), rel=1e-12)
    assert result["mean_absolute_error"] == pytest.approx(math.fsum(errors) / len(pairs), rel=1e-12)
    assert set(result) == set(NAMES)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("value", [1.0, 1.5, 2.0, 3.1415, 1e-3, 0.0, -7.0])
def test_next_number_is_one_ulp_away(name, value):
    dtype = getattr(torch, name)
    expected = torch.tensor([value], dtype=dtype)
    actual = torch.nextafter(expected, torch.tensor([100.0], dtype=dtype))
    assert compare(expected, actual, EXACT)["max_ulp_error"] == 1.0


def test_subnormals_and_zeros_have_finite_errors():
    result = compare(floats(0.0, 5e-324, dtype=torch.float64), floats(1e300, 0.0, dtype=torch.float64), EXACT)
    assert result["max_ulp_error"] == sys.float_info.max  # 1e300 in subnormals is beyond float64
    assert result["max_relative_error"] == sys.float_info.max
    small = compare(floats(2.0**-149), floats(0.0), EXACT)
    assert small["max_ulp_error"] == 1.0
    assert small["max_relative_error"] == 2.0**-23  # of the smallest normal number


# expected, got -> (nan, infinite, missing)
STRANGE = {
    (1.0, NAN): (1, 0, 0),
    (INF, NAN): (1, 0, 0),
    (1.0, INF): (0, 1, 0),
    (-INF, INF): (0, 1, 0),
    (NAN, INF): (0, 1, 0),
    (NAN, 1.0): (0, 0, 1),
    (INF, 1.0): (0, 0, 1),
    (NAN, NAN): (0, 0, 0),
    (INF, INF): (0, 0, 0),
    (-INF, -INF): (0, 0, 0),
}


@pytest.mark.parametrize(("pair", "counts"), STRANGE.items(), ids=str)
@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("allowed", [EXACT, within(1e300, 1e300)], ids=["exact", "anything"])
def test_nan_and_infinity_are_counted(monkeypatch, pair, counts, size, allowed):
    monkeypatch.setattr(accuracy_module, "BLOCK_CPU", size)
    expected, actual = floats(1.0, 2.0, pair[0], 4.0), floats(1.0, 2.0, pair[1], 4.0)
    result = compare(expected, actual, allowed)
    assert tuple(result[name] for name in ("nan", "infinite", "missing")) == counts
    is_wrong = sum(counts)
    assert (result["wrong"], result["right"]) == (is_wrong, not is_wrong)
    assert result["passes_1e5"] is not bool(is_wrong)
    assert result["first_wrong"] == (2 if is_wrong else None)
    assert (result["max_absolute_error"], result["max_error"], result["max_ulp_error"]) == (0, 0, 0)


ERRORS = [name for name in NAMES if name.endswith("_error")]


@pytest.mark.parametrize(("pair", "counts"), STRANGE.items(), ids=str)
def test_errors_of_an_output_without_a_finite_pair(pair, counts):
    result = compare(floats(*[pair[0]] * 5), floats(*[pair[1]] * 5), within(1e300, 1e300))
    assert result["right"] is not any(counts)
    assert {result[name] for name in ERRORS} == ({None} if any(counts) else {0.0})  # 0 would say: perfect


def test_errors_beside_nan_are_counted():
    result = compare(floats(NAN, 2.0, INF, 4.0), floats(NAN, 2.5, INF, 4.0), EXACT)
    assert (result["wrong"], result["first_wrong"], result["max_absolute_error"]) == (1, 1, 0.5)
    assert result["mean_absolute_error"] == 0.25  # of the two pairs of finite numbers
    assert not result["passes_1e5"]


def test_value_beyond_output_range_is_infinite():
    reference = floats(1e39, -1e39, 1.0, dtype=torch.float64)
    assert compare(reference, floats(INF, -INF, 1.0))["right"]
    assert compare(reference, floats(INF, INF, 1.0))["infinite"] == 1
    assert not compare(reference, floats(3e38, -INF, 1.0))["right"]


# NaN, off by one, shape, an element that was not written: the four deliberate faults.
def test_single_nan_is_named():
    expected = torch.ones(4, 5)
    actual = expected.clone()
    actual[2, 3] = NAN
    result = compare(expected, actual)
    assert (result["right"], result["nan"], result["wrong"]) == (False, 1, 1)
    assert result["why"] == "1 of 20 elements wrong, the first at (2, 3): got nan, wanted 1"
    allowed = "the element rule allows rtol 1e-05, atol 1e-05 (default of float32: 1e-5, as published suites)"
    assert in_words(result) == f"{result['why']}; nan 1; {allowed}; allow more by `tolerance=` in the definition"


def test_single_off_by_one_int8_is_named():
    expected = torch.zeros(1000, dtype=torch.int8)
    actual = expected.clone()
    actual[999] = -1
    result = compare(expected, actual)
    assert (result["right"], result["off_by_one"], result["first_wrong"]) == (False, 1, 999)
    assert result["why"] == "1 of 1000 elements wrong, the first at (999,): got -1, wanted 0"
    allowed = compare(expected, actual, parse_tolerance("1"))
    assert (allowed["right"], allowed["off_by_one"], allowed["wrong"], allowed["why"]) == (True, 1, 0, None)
    assert not allowed["passes_1e5"]


@pytest.mark.parametrize(
    ("expected", "actual", "why"),
    [
        (torch.ones(3), torch.ones(4), "got shape (4,), wanted (3,)"),
        (torch.ones(3), torch.ones(3).double(), "got dtype float64, wanted float32"),
        (torch.ones(3), torch.ones(3).int(), "got dtype int32, wanted float32"),
        (torch.ones(3).double(), torch.ones(3).int(), "got dtype int32, wanted float64"),
        (torch.ones(3).bool(), torch.ones(3).to(torch.uint8), "got dtype uint8, wanted bool"),
        (torch.ones(3), None, "got nothing, wanted a tensor"),
        (torch.ones(3), [1.0, 1.0, 1.0], "got list, wanted a tensor"),
        (None, torch.ones(3), "got a tensor, wanted nothing"),
    ],
)
def test_incomparable_outputs_are_wrong(expected, actual, why):
    result = compare(expected, actual)
    assert (result["right"], result["why"], result["wrong"], result["max_error"]) == (False, why, None, None)
    assert set(result) == set(NAMES)
    assert in_words(result) == why


def test_dtype_argument():
    reference = torch.ones(3, dtype=torch.float64)
    assert compare(reference, torch.ones(3), dtype="float32")["right"]
    assert compare(reference, torch.ones(3).half(), dtype="float32")["why"] == "got dtype float16, wanted float32"
    assert compare(reference, reference, dtype="float32")["why"] == "got dtype float64, wanted float32"
    assert compare(torch.ones(3), torch.ones(3).half(), dtype="float16")["right"]
    assert not compare(torch.ones(3), torch.ones(3).int(), dtype="int32")["right"]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e4m3fn])
def test_unsupported_dtype_is_refused(dtype):
    tensor = torch.ones(2, dtype=torch.float32).to(dtype)
    with pytest.raises(ValueError, match=r"are not compared here, only float16, .*int64") as caught:
        compare(tensor, tensor)
    assert ("view_as_real" in str(caught.value)) is dtype.is_complex
    assert "\n" not in str(caught.value)


integers = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(integers, integers), min_size=1, max_size=20), st.sampled_from([0, 1, 5]))
def test_integer_figures_equal_elementwise_ones(pairs, allowed):
    expected = torch.tensor([e for e, _ in pairs], dtype=torch.int64)
    result = compare(expected, torch.tensor([a for _, a in pairs], dtype=torch.int64), within(atol=allowed))
    errors = [min(abs(a - e), 2**63 - 1) for e, a in pairs]
    assert result["wrong"] == sum(error > allowed for error in errors)
    assert result["off_by_one"] == errors.count(1)
    assert result["max_absolute_error"] == result["max_error"] == float(max(errors))
    assert result["total_error"] == pytest.approx(float(sum(errors)), rel=1e-12)
    relative = [error / max(abs(e), 1) for error, (e, _) in zip(errors, pairs, strict=True)]
    assert result["max_relative_error"] == pytest.approx(max(relative))
    assert result["max_ulp_error"] is None and result["nan"] is None


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_integer_extremes_do_not_wrap(dtype):
    ends = torch.iinfo(dtype)
    result = compare(torch.tensor([ends.min], dtype=dtype), torch.tensor([ends.max], dtype=dtype), within(atol=1))
    assert (result["right"], result["off_by_one"]) == (False, 0)
    assert result["max_absolute_error"] == float(min(ends.max - ends.min, 2**63 - 1))


def test_booleans_are_exact():
    result = compare(torch.tensor([True, False, True]), torch.tensor([True, True, True]), parse_tolerance("1"))
    assert (result["right"], result["wrong"], result["first_wrong"]) == (False, 1, 1)
    assert result["why"].endswith("got True, wanted False")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.bool])
def test_empty_output_is_right(dtype):
    result = compare(torch.ones(0, 3).to(dtype), torch.ones(0, 3).to(dtype))
    assert (result["right"], result["elements"], result["wrong"], result["max_error"]) == (True, 0, 0, 0)
    assert result["mean_absolute_error"] == 0


def test_scalar_is_one_element():
    result = compare(torch.tensor(2.0), torch.tensor(3.0))
    assert (result["elements"], result["first_wrong"], result["first_wrong_index"]) == (1, 0, ())


shapes = st.lists(st.integers(0, 7), max_size=4)


@given(shapes, st.integers(1, 50), st.randoms())
def test_blocks_are_row_major_for_any_strides(shape, size, random):
    order = list(range(len(shape)))
    random.shuffle(order)
    count = math.prod(shape)
    plain = torch.arange(count).reshape(shape)
    strided = torch.arange(count).reshape([shape[index] for index in order])
    strided = strided.permute([order.index(axis) for axis in range(len(shape))])  # of the same shape
    assert strided.shape == plain.shape
    result = list(blocks(plain, strided, size))
    assert [first for first, _, _ in result] == [0, *itertools.accumulate(len(block) for _, block, _ in result)][:-1]
    assert all(0 < len(block) <= size for _, block, _ in result)
    for position, tensor in ((1, plain), (2, strided)):
        pieces = [piece[position] for piece in result]
        assert torch.equal(torch.cat(pieces) if pieces else torch.empty(0, dtype=torch.int64), tensor.flatten())


def test_strided_outputs(monkeypatch):
    monkeypatch.setattr(accuracy_module, "BLOCK_CPU", 7)
    expected = torch.arange(60.0).reshape(3, 4, 5)
    actual = expected.clone()
    actual[1, 2, 3] = -1
    turned = compare(expected.permute(2, 0, 1), actual.permute(2, 0, 1))
    assert (turned["wrong"], turned["first_wrong_index"]) == (1, (3, 1, 2))
    assert (turned["first_expected"], turned["first_actual"]) == (33.0, -1.0)
    assert compare(torch.ones(1).expand(5, 9), torch.ones(5, 9))["right"]


def test_inputs_are_unchanged():
    for dtype in (torch.float64, torch.float32, torch.int64):
        expected, actual = torch.tensor([1, -2, 3]).to(dtype), torch.tensor([1, 2, 4]).to(dtype)
        compare(expected, actual)
        assert expected.tolist() == [1, -2, 3] and actual.tolist() == [1, 2, 4]


def test_outputs_with_gradients():
    with torch.enable_grad():
        wanted = torch.ones(3, requires_grad=True)
        assert compare(wanted, wanted * 1)["right"]


def test_several_outputs_by_name():
    expected = (torch.ones(2), torch.zeros(3, dtype=torch.int8))
    result = compare_outputs(expected, [torch.ones(2), torch.ones(3, dtype=torch.int8)], names=["values", "indices"])
    assert list(result) == ["values", "indices"]
    assert [figures["right"] for figures in result.values()] == [True, False]
    right, details = verdict(result)
    assert not right
    assert details["why"] == "indices: 3 of 3 elements wrong, the first at (0,): got 1, wanted 0"
    assert (details["max_error"], in_words(details)) == (1.0, details["why"])
    assert verdict(compare_outputs(expected, expected))[0]


def test_missing_or_extra_outputs_are_wrong():
    ones = torch.ones(2)
    missing = compare_outputs((ones, ones), ones)
    assert [figures["right"] for figures in missing.values()] == [True, False]
    assert missing["out1"]["why"] == "got 1 output, wanted 2"
    more = compare_outputs(ones, (ones, ones), names=["out"])
    assert (more["out"]["right"], more["out1"]["why"]) == (True, "got 2 outputs, wanted 1")
    assert verdict(more)[1]["max_error"] is None


def test_foreign_details_in_words():
    assert in_words({"max_difference": 0.12345678, "count": 3}) == "max_difference 0.123, count 3"


def test_tolerance_of_a_comparison():
    expected, actual = torch.ones(3), torch.ones(3) + 1e-4
    assert not accuracy(expected, actual)["right"]
    for tolerance in ("1e-3", "rtol=0,atol=1e-3", within(rtol=1e-3)):
        assert accuracy(expected, actual, tolerance)["right"]


MEMORY = """
import resource, torch
from kernel_velocity.problem.accuracy import compare

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

torch.set_num_threads(1)
expected = torch.rand(16_000_000)
actual = expected.clone()
actual[-1] = float("nan")
square, other = expected.view(4000, 4000).t(), actual.view(4000, 4000).t()
small, other_small = torch.zeros(16_000_000, dtype=torch.int8), torch.ones(16_000_000, dtype=torch.int8)
compare(expected[:100], actual[:100])  # what is loaded at first use is no part of it
before = peak()
wrong = [compare(*pair)["wrong"] for pair in ((expected, actual), (square, other), (small, other_small))]
print(peak() - before, wrong)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of the memory is in KiB on Linux alone")
def test_memory_is_that_of_a_block():
    done = subprocess.run([sys.executable, "-c", MEMORY], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    extra, _, wrong = done.stdout.partition(" ")
    assert wrong.strip() == "[1, 1, 16000000]"
    assert int(extra) < 16e6  # one temporary of the whole output would be 64 or 128 MB


@pytest.mark.cuda
def test_cuda_tensors_are_compared_on_the_device():
    expected = torch.rand(3 * accuracy_module.BLOCK_DEVICE + 5)
    actual = expected.cuda()
    actual[-1] = NAN
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = compare(expected, actual)  # the expected values lie elsewhere
    assert (result["wrong"], result["nan"], result["first_wrong"]) == (1, 1, expected.numel() - 1)
    assert torch.cuda.max_memory_allocated() - before < 12 * 8 * accuracy_module.BLOCK_DEVICE
    assert compare(expected.cuda(), actual)["wrong"] == 1


# The norm of the errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [3, 8, 1 << 16])
def test_errors_below_the_absolute_tolerance_have_a_norm(monkeypatch, block):
    monkeypatch.setattr(accuracy_module, "BLOCK_CPU", block)
    expected = torch.full((6, 8), 1e-7)
    figures = compare(expected, torch.zeros(6, 8))
    assert not figures["right"] and (figures["rule"], figures["wrong"]) == ("norm", 0)
    assert figures["norm_error"] == pytest.approx(1)
    assert "the norm of the errors is 1 of that of the expected values; " in in_words(figures)
    assert "the norm rule allows norm 1.01e-05 (default of float32" in in_words(figures)


@pytest.mark.parametrize("block", [3, 8, 1 << 16])
def test_row_is_judged_by_its_own_size(monkeypatch, block):
    monkeypatch.setattr(accuracy_module, "BLOCK_CPU", block)
    expected = torch.ones(6, 8)
    expected[5] = 1e-8
    actual = expected.clone()
    actual[5] = 0
    assert compare(expected, actual, by_row=True)["right"]  # such a row may be rounding errors of the others' size
    expected[5] = actual[5] = 1e-3
    actual[5, 7] += 9e-6
    assert compare(expected, actual)["right"]
    figures = compare(expected, actual, by_row=True)
    assert (figures["rule"], figures["right"]) == ("row norm", False)
    assert figures["why"] == "in row 5 the norm of the errors is 0.00318 of that of the expected values"
