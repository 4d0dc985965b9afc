"""The problems: right outputs pass, each kind of wrong one is caught and named. Foreign definitions fit."""

import pytest

from benchmarks import matmul
from kernel_velocity.problem.problem import Problem, outputs_of
from tests.small_suite import SUITE

torch = pytest.importorskip("torch", reason="problems make torch tensors")

PROBLEMS = {problem.name: problem for problem in SUITE.problems()}
OUTPUTS = [(name, output) for name, problem in PROBLEMS.items() for output in problem.output_names()]


@pytest.fixture(params=sorted(PROBLEMS))
def problem(request):
    PROBLEMS[request.param].device = "cpu"
    return PROBLEMS[request.param]


def small(problem):
    """Return inputs and eager output of a small size of the problem."""
    axes = len(problem.generate_sample()["dims"])
    inputs = problem.inputs_of("float32-5000" if axes == 1 else f"float32-{'x'.join(['64'] * axes)}")
    return inputs, problem.reference_solution(*inputs)


def said_of(details, name):
    """Return what is said of an output of that name."""
    return details["outputs"][name] if "outputs" in details else details


@pytest.fixture(params=OUTPUTS, ids="-".join)
def faulty(request):
    """A problem, what it expects of small inputs, its eager outputs, and the name of one of them with that output."""
    name, output = request.param
    problem = PROBLEMS[name]
    problem.device = "cpu"
    inputs, outputs = small(problem)
    return problem, inputs, outputs, output, outputs_of(outputs)[problem.output_names().index(output)]


def test_eager_is_right(problem):
    inputs, output = small(problem)
    right, details = problem.verify_result(problem.expected(*inputs), output)
    assert right
    outputs = dict(zip(problem.output_names(), outputs_of(output), strict=True))
    assert len(outputs) == len(outputs_of(problem.empty_output(inputs)))
    for name, computed in outputs.items():
        part = said_of(details, name)
        assert (part["wrong"], part["elements"]) == (0, computed.numel())


DTYPES = [
    *(("add_mul_exp", dtype) for dtype in ("float32", "float64", "float16", "bfloat16")),
    *(("quantize_int8", dtype) for dtype in ("float32", "float16", "bfloat16")),
]


@pytest.mark.parametrize(("name", "dtype"), DTYPES)
def test_case_of_a_dtype_is_checked_tightly(name, dtype):
    problem = PROBLEMS[name]
    problem.device = "cpu"
    inputs = problem.inputs_of(f"{dtype}-1M")  # all the different values that there are
    assert inputs[0].dtype == getattr(torch, dtype)
    output = problem.reference_solution(*inputs)
    assert output.dtype == problem.empty_output(inputs).dtype
    expected = problem.expected(*inputs)
    assert problem.verify_result(expected, output)[0]
    if dtype in ("float16", "bfloat16") and name == "add_mul_exp":
        assert torch.isfinite(output).all() and output.abs().min() >= torch.finfo(output.dtype).tiny
        for step in (-1, 1):  # bits of a neighbour: more than half a unit away
            beside = (output[:1000].view(torch.int16) + step).view(output.dtype)
            assert not problem.verify_result(expected[:1000], beside)[0]
    wrong = output.clone()
    wrong[37] += 1
    assert not problem.verify_result(expected, wrong)[0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_cuda_product_is_checked_to_its_last_bit(dtype):
    problem = PROBLEMS["matmul"]
    problem.device = "cpu"
    inputs = problem.inputs_of(f"{dtype}-96x96x96")
    assert {value.dtype for value in inputs} == {getattr(torch, dtype)}
    output, expected = problem.reference_solution(*inputs), problem.expected(*inputs)
    assert output.dtype == problem.empty_output(inputs).dtype == (torch.int32 if dtype == "int8" else inputs[0].dtype)
    assert output.shape == problem.empty_output(inputs).shape
    assert problem.verify_result(expected, output)[0]
    rounded = expected.to(output.dtype)
    assert problem.verify_result(expected, rounded)[0]
    kind = torch.int32 if dtype == "int8" else torch.int16
    for step in (-1, 1):  # a neighbour; of floating-point numbers two away, for theirs may be as near as the right one
        beside = (rounded.view(kind) + (step if dtype == "int8" else 2 * step)).view(rounded.dtype)
        details = problem.verify_result(expected, beside)[1]
        assert details["wrong"] > 0.95 * details["elements"]  # all but what is near 0
    wrong = problem.reference_solution(inputs[0][:, :-16].contiguous(), inputs[1][:-16])
    assert not problem.verify_result(expected, wrong)[0]


def test_dropped_term_of_a_float8_sum_is_seen():
    """Sums of the largest case are exact in the 14 bits that tensor cores keep: multiples of .25 below 2048."""
    problem = PROBLEMS["matmul"]
    problem.device = "cpu"
    inputs = problem.inputs_of("float8_e4m3fn-128x128x4096")
    a, b = (factor.double() for factor in inputs)
    output, expected = problem.reference_solution(*inputs), problem.expected(*inputs)
    assert output.dtype == problem.empty_output(inputs).dtype == torch.float32
    assert torch.equal(4 * (a @ b), torch.round(4 * (a @ b))) and (a @ b).abs().max() < 2048
    assert problem.verify_result(expected, output)[0]
    output[5, 7] -= float(a[5, 4000] * b[4000, 7])
    assert not problem.verify_result(expected, output)[0]


def test_float8_is_na_but_on_hopper(monkeypatch):
    for capability, text in (((8, 0), "8.0"), ((10, 0), "10.0")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda capability=capability: capability)
        with pytest.raises(NotImplementedError, match=f"9.0 multiplies float8_e4m3fn here, this GPU has {text}$"):
            matmul.factors("", 128, 128, 128, dtype="float8_e4m3fn", device="cuda")


def test_int8_products_without_pytorch_support_are_na(monkeypatch):
    problem = PROBLEMS["matmul"]
    problem.device = "cpu"
    inputs = problem.inputs_of("int8-32x32x32")
    monkeypatch.delattr(torch, "_int_mm")
    with pytest.raises(NotImplementedError, match="has no _int_mm"):
        problem.reference_solution(*inputs)
    assert problem.expected(*inputs).dtype == torch.int32  # what ours is compared with needs none


def test_wrong_output_is_caught_and_located(faulty):
    problem, inputs, outputs, name, output = faulty
    expected = problem.expected(*inputs)
    short = [tensor[:-1] if tensor is output else tensor for tensor in outputs_of(outputs)]
    right, details = problem.verify_result(expected, short[0] if len(short) == 1 else tuple(short))
    assert (right, said_of(details, name)["actual_shape"]) == (False, tuple(output[:-1].shape))
    output.view(-1)[37] += 1
    right, details = problem.verify_result(expected, outputs)
    text = said_of(details, name)
    assert (right, text["wrong"], text["first_wrong"]) == (False, 1, 37)
    assert text["why"] in details["why"]
    if output.is_floating_point():
        output.view(-1)[-1] = float("nan")
        right, details = problem.verify_result(expected, outputs)
        assert (right, said_of(details, name)["nan"]) == (False, 1)


def test_draw_of_rows_is_right_and_finds_wrong_tiles(faulty):
    problem, inputs, outputs, _, output = faulty
    part, picked = problem.subset(inputs, outputs, 7)
    assert problem.verify_result(problem.expected(*part), picked)[0]
    output[-2 * 7 :] += 1  # each part of 7 rows has a drawn one
    part, picked = problem.subset(inputs, outputs, 7)
    assert not problem.verify_result(problem.expected(*part), picked)[0]


def test_inputs_are_seeded_and_random(problem):
    first, again = small(problem)[0][0], small(problem)[0][0]
    assert torch.equal(first, again)
    assert float(first.double().std()) > 0.9  # integers spread further
    assert first.unique().numel() > 50


def test_tensor_scale_gives_the_same_integers():
    # What CUDA's inputs look like; torch's CUDA division by a number is not a division.
    problem = PROBLEMS["quantize_int8"]
    x, scale, zero_point = problem.inputs_of("float32-100k")
    tensor = torch.tensor(scale)
    number = problem.reference_solution(x, scale, zero_point)
    assert torch.equal(problem.reference_solution(x, tensor, zero_point), number)
    assert problem.native_arguments((x, tensor, zero_point))[1] == tensor.item()
    (part, same, _), _ = problem.subset((x, tensor, zero_point), number, 97)
    assert part.numel() == 1031  # of 100,000, one in 97
    assert same is tensor


@pytest.mark.parametrize(
    ("name", "case", "flops", "moved"),
    [
        ("add_mul_exp", "float32-1M", 3_000_000, 12_000_000),
        ("quantize_int8", "float32-1M", 5_000_000, 5_000_000),
        ("matmul", "float32-128x128x128", 2 * 128**3, 3 * 4 * 128**2),
        ("matmul_bias_relu", "float32-128x128x128", 2 * 128**3 + 2 * 128**2, 3 * 4 * 128**2 + 4 * 128),
    ],
)
def test_cost_by_hand(name, case, flops, moved):
    problem = PROBLEMS[name]
    problem.device = "cpu"
    test = problem.test_case(case)
    assert (problem.get_flops(test), problem.get_bytes(test)) == (flops, moved)
    with pytest.raises(KeyError, match="no case 'float32-3'"):
        problem.test_case("float32-3")


def test_seed_is_the_public_one():
    # First four bytes of MD5("abc") = 90 01 50 98, little-endian, without the sign bit.
    assert Problem.get_seed("abc") == 0x98500190 & 0x7FFFFFFF
