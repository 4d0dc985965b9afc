"""What every kernel does alike on every device, and that the checks of these tests see what a faulty one would do."""

from __future__ import annotations

import pytest

import kernels
from tests.kernels import references
from tests.kernels.guarded import GUARD_VALUE, Prepared, run
from tests.kernels.instruction_sets import on_every_device

torch = pytest.importorskip("torch", reason="tensors on a device are PyTorch's")
pytestmark = on_every_device()


@pytest.mark.parametrize("kernel", references.KERNELS)
def test_faults_are_seen(device, kernel):
    prepared = Prepared(references.random_case(kernel, 1), device)
    assert prepared.out.is_poison(prepared.out.host())
    with pytest.raises(AssertionError):
        prepared.check()  # nothing written
    prepared.call()
    prepared.check()
    assert not prepared.out.is_poison(prepared.out.host())
    for index in (prepared.out.begin - 1, prepared.out.end):
        prepared.out.memory[index] = 0
        with pytest.raises(AssertionError, match="1 elements beside the output written"):
            prepared.check()
        prepared.out.memory[index] = GUARD_VALUE
    for tensor, observed in ((prepared.inputs[0], "an input was written"), (prepared.out.tensor, "wrong|worst error")):
        before = tensor.flatten()[-1].clone()
        tensor.view(-1)[-1] = 100
        with pytest.raises(AssertionError, match=observed):
            prepared.check()
        tensor.view(-1)[-1] = before
    prepared.check()


@pytest.mark.parametrize("offset", [1, 2, 3])
@pytest.mark.parametrize("case", references.even_cases(), ids=lambda case: case.kernel)
def test_one_tensor_that_is_not_aligned(device, case, offset):
    tensors = len(case.arrays) + 1
    for which in range(tensors):
        run(case, device, [offset if tensor == which else 0 for tensor in range(tensors)])


@pytest.mark.parametrize("kernel", references.KERNELS)
def test_output_is_allocated_beside_the_input(device, kernel):
    case = references.random_case(kernel, 5)
    prepared = Prepared(case, device)
    made = getattr(kernels, kernel)(*prepared.inputs, *case.scalars)
    assert (made.device, tuple(made.shape), made.dtype) == (
        prepared.inputs[0].device,
        case.shape,
        getattr(torch, case.dtype),
    )
    case.check(made.cpu().numpy(), device)
