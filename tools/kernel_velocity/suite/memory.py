"""What tensors hold, in sums that read all of it, and how outputs lie in memory, compared with the reference's.

A kernel that changes what nobody reads gains by it, and so does one that returns a view of its input where the
reference returns a copy. What is read of outputs at a glance is drawn from the system's entropy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from kernel_velocity.problem.problem import Inputs, Problem, as_tensor, entropy, outputs_of
from kernel_velocity.problem.problem_formats import copies

PIECES = 16  # of a tensor, each with a sum: elements that cancel out lie on both sides of a secret cut
WHOLE = 1 << 16  # elements of an output that are looked at in one copy. Of more GLANCES are, at random
GLANCES = 1 << 12


def tensors_of(values: Sequence[Any]) -> list[Any]:
    """Return the tensors among values, arrays of NumPy as tensors that share their memory."""
    return [tensor for tensor in map(as_tensor, values) if hasattr(tensor, "data_ptr")]


def checksums(values: Sequence[Any], seed: int) -> list[Any]:
    """Return sums over all bits of every tensor, and its dtype.

    Each tensor is cut into PIECES at places that follow from `seed`, and each piece is summed up as int64, which wraps
    around. That reads at the memory's pace: 40 MB took 1.2 ms, a copy of them 3 ms, their CRC 18 ms.
    """
    import torch  # noqa: PLC0415 - discovery must work without torch

    sums: list[Any] = []
    generator = torch.Generator("cpu").manual_seed(seed)
    for tensor in tensors_of(values):
        words = _words(tensor.detach())
        cuts = torch.randint(words.numel() + 1, (PIECES - 1,), generator=generator, device="cpu").sort().values
        pieces = pairwise((0, *cuts.tolist(), words.numel()))
        sums += torch.stack([words[begin:end].sum() for begin, end in pieces]).tolist()
        sums.append(str(tensor.dtype))
    return sums


def layout_of(values: Sequence[Any]) -> list[Any]:
    """Return the shape and the strides of every tensor."""
    return [(tuple(tensor.shape), tensor.stride()) for tensor in tensors_of(values)]


def _words(tensor: Any) -> Any:
    """Return a tensor's bits as a vector of integers, of 8 bytes where it lies so that they can be read as such."""
    import torch  # noqa: PLC0415

    flat = tensor.resolve_conj().resolve_neg().reshape(-1).contiguous()
    offset, size = flat.storage_offset() * flat.element_size(), flat.numel() * flat.element_size()
    if (offset | size) % 8 == 0:
        return flat.view(torch.int64)
    return flat.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.element_size()])


class Glance:
    """Looks at outputs as soon as a call returned, at elements drawn before: drawing them takes time.

    Args:
        counts: of the elements of outputs that are expected.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self._generator = entropy()
        self._drawn = {count: self._draw(count) for count in counts}

    def _draw(self, count: int) -> Any:
        import torch  # noqa: PLC0415

        drawn = min(count, GLANCES)
        return torch.randint(max(count, 1), (drawn,), generator=self._generator, device="cpu").sort().values

    def at(self, outputs: Sequence[Any]) -> list[Any]:
        """Return copies of small outputs, and of the drawn elements of others."""
        looked_at = []
        for tensor in tensors_of(outputs):
            flat, count = tensor.detach().reshape(-1), tensor.numel()
            if count > WHOLE and count not in self._drawn:
                self._drawn[count] = self._draw(count)
            looked_at.append(flat.clone() if count <= WHOLE else flat[self._drawn[count]])
        return looked_at


# How outputs lie in memory --------------------------------------------------------------------------------------------


def unlike_reference(problem: Problem, inputs: Inputs, output: Any, rows: Inputs, expected: Any) -> str:
    """Return what outputs that a call allocated lack and the reference's have, "" for nothing.

    The reference states its outputs' dtypes. Where these have memory of their own, are contiguous, or have no element
    twice in memory, it states that, too. It runs only where an output is suspicious, or of another dtype than expected.

    Args:
        problem: its `reference_solution` is the reference.
        inputs: of the call. output: of the call, as many tensors as expected.
        rows: the inputs that `expected` is of, the call's or a draw of them.
        expected: what was computed of them, in a higher precision than the reference's perhaps.
    """
    outputs = tensors_of(outputs_of(output))
    dtypes = [tensor.dtype for tensor in tensors_of(outputs_of(expected))]
    faults = [_faults(outputs, index, inputs) for index in range(len(outputs))]
    if not any(faults) and dtypes == [tensor.dtype for tensor in outputs]:
        return ""
    arguments = copies(inputs if any(faults) else rows)
    for _ in range(2):  # the first call of a problem's file may get copies of its own
        stated = tensors_of(outputs_of(problem.reference_solution(*arguments)))
    names = problem.output_names() or ("out",) * len(outputs)
    for index, (name, tensor) in enumerate(zip(names, outputs, strict=False)):
        if tensor.dtype != stated[index].dtype:
            return f"{name} has dtype {_named(tensor)}, wanted {_named(stated[index])} as the reference's"
        excused = _faults(stated, index, arguments)
        if fault := next((fault for fault in faults[index] if fault not in excused), ""):
            return f"{name} {fault}, unlike the reference's: return a contiguous copy"
    return ""


def _named(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _faults(outputs: Sequence[Any], index: int, inputs: Inputs) -> list[str]:
    """Return what an output is that a copy is not."""
    tensor = outputs[index]
    faults = {
        "lies in the memory of an input": any(_overlap(tensor, other) for other in tensors_of(inputs)),
        "lies in the memory of another output": any(_overlap(tensor, other) for other in outputs[:index]),
        "has elements that share their memory": any(
            stride == 0 for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1
        ),
        "is not contiguous": not tensor.is_contiguous(),
    }
    return [fault for fault, is_there in faults.items() if is_there]


def _overlap(first: Any, other: Any) -> bool:
    """Return whether the memory from a tensor's first to its last byte has a byte of another's."""
    (begin, end), (other_begin, other_end) = _span(first), _span(other)
    return first.device == other.device and begin < other_end and other_begin < end


def _span(tensor: Any) -> tuple[int, int]:
    begin = tensor.data_ptr()
    if not tensor.numel():
        return begin, begin
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * tensor.element_size()
