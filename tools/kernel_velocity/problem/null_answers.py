"""Null answers: outputs of which nothing was computed. A check that one of them passes proves nothing of it.

`unproven` tries them against a check, once a case. Each replaces one output, and the other outputs are right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kernel_velocity.problem import accuracy
from kernel_velocity.problem.accuracy import FORMATS
from kernel_velocity.problem.implementations import poison
from kernel_velocity.problem.problem import (
    Inputs,
    Outputs,
    Problem,
    TestCase,
    as_tensor,
    drawn_anew,
    outputs_of,
    rebuilt,
    redirected,
)
from kernel_velocity.problem.problem_file import is_out_of_memory
from kernel_velocity.unproven import SAME, NullAnswer

if TYPE_CHECKING:
    import torch

PARTS = 8  # blocks of rows, and tiles in each direction, of which one is left out
TRIED = 1 << 16  # elements of an output that null answers replace where a problem has `subset`


def unproven(
    check: Callable[[Outputs], bool],
    problem: Problem,
    inputs: Inputs,
    expected: Outputs,
    right: Outputs,
    *,
    others: Outputs | None = None,
    rtol: float = 0.0,
) -> tuple[NullAnswer, ...]:
    """Return the null answers that a check takes for right, of each kind one per output. () where it refuses all.

    One that passes, but whose norm of errors is beyond what `accuracy.is_within_norm` allows, does not count where
    that of `right` is within: then that rule tells them apart.

    Args:
        check: whether outputs are right for `inputs`. One that raises refuses them.
        problem: whose outputs they are.
        inputs: tensors and numbers.
        expected: what the check compares with.
        right: outputs that pass, of any form. They are not changed.
        others: the right outputs for other inputs (`other_inputs`). None: there are none.
        rtol: relative tolerance that the check states, for the norm, too.
    """
    leaves, names = outputs_of(right), problem.output_names()
    wanted, elsewhere = ([as_tensor(value) for value in outputs_of(result)] for result in (expected, others))
    if len(names) != len(leaves):
        names = tuple(f"out{index}" for index in range(len(leaves)))
    length = longest_sum(inputs)

    def is_worse(answer: Outputs) -> bool:
        verdicts = [list(_within_norm(expected, outputs, length, rtol)) for outputs in (right, answer)]
        return any(pair == (True, False) for pair in zip(*verdicts, strict=False))

    passed = []
    for index, (leaf, output) in enumerate(zip(leaves, wanted, strict=False)):
        written = as_tensor(leaf)
        if not hasattr(written, "data_ptr") or written.numel() == 0 or written.shape != output.shape:
            continue
        other = elsewhere[index] if len(elsewhere) == len(leaves) else None
        kinds = set[str]()
        is_copy = partial(_is_copy, problem, inputs, index)
        for kind, answer in _answers(output.detach().to(written.device, written.dtype), inputs, other, is_copy):
            value = answer if written is leaf else answer.numpy()
            outputs = rebuilt(right, iter((*leaves[:index], value, *leaves[index + 1 :])))
            if kind in kinds or not _passes(check, outputs) or is_worse(outputs):
                continue
            kinds.add(kind)
            passed.append(NullAnswer(kind, names[index] if len(leaves) > 1 else ""))
    return tuple(passed)


def of_reference(problem: Problem, test: TestCase) -> tuple[NullAnswer, ...]:
    """Return the null answers that a problem's own check takes for its reference's output of a case."""
    inputs = test["create_inputs"]()
    drawn = other_inputs(test["create_inputs"], inputs)
    others = None if drawn is None else problem.expected(*drawn)
    expected = problem.expected(*inputs)  # last: a public problem verifies for the last inputs
    return unproven_by_itself(problem, inputs, expected, expected, others)


def unproven_by_itself(
    problem: Problem, inputs: Inputs, expected: Outputs, right: Outputs, others: Outputs | None
) -> tuple[NullAnswer, ...]:
    """Return the null answers that a problem's own check takes for right (`unproven`)."""
    return unproven(
        lambda answer: problem.verify_result(expected, answer)[0],
        *(problem, inputs, expected, right),
        others=others,
        rtol=accuracy.stated_rtol(problem.verify_result(expected, right)[1]),
    )


def _within_norm(expected: Outputs, outputs: Outputs, length: int, rtol: float) -> Iterator[bool | None]:
    """Yield whether the norm of each output's errors is allowed (`accuracy.is_within_norm`)."""
    wanted, got = ([as_tensor(value) for value in outputs_of(result)] for result in (expected, outputs))
    try:
        compared = accuracy.compare_outputs(wanted, got)
    except ValueError:  # a dtype that is not compared
        return
    yield from (accuracy.is_within_norm(figures, length, rtol) for figures in compared.values())


def longest_sum(inputs: Inputs) -> int:
    """Return an upper bound of the terms of a sum over inputs: the elements of the largest."""
    return max((value.numel() for value in map(as_tensor, inputs) if hasattr(value, "data_ptr")), default=1)


def other_inputs(create: Callable[[], Inputs], inputs: Inputs) -> Inputs | None:
    """Return inputs of the same kind with other values. None where a definition makes none."""
    with drawn_anew("other inputs"):
        drawn = create()
    pairs = list(zip(map(as_tensor, inputs), map(as_tensor, drawn), strict=False))
    are_alike = len(inputs) == len(drawn) and all(
        (getattr(old, "shape", None), getattr(old, "dtype", None))
        == (getattr(new, "shape", None), getattr(new, "dtype", None))
        for old, new in pairs
    )
    tensors = [pair for pair in pairs if hasattr(pair[0], "data_ptr")]
    return drawn if are_alike and not all(_are_equal(*pair) for pair in tensors) else None


def _are_equal(first: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors of one kind are equal bit by bit: PyTorch compares no float8."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    bits = (tensor.detach().reshape(-1).contiguous().view(torch.uint8) for tensor in (first, other))
    return bool(torch.equal(*bits))


def step_for(outputs: Outputs, most: int) -> int:
    """Return the step of rows (`Problem.subset`) at which about TRIED elements are left, at most `most`."""
    counts = [value.numel() for value in map(as_tensor, outputs_of(outputs)) if hasattr(value, "data_ptr")]
    return max(1, min(most, max(counts, default=0) // TRIED))


def thinned(values: Any, step: int) -> Any:
    """Return a value of the same form with every `step`-th row of its tensors."""
    tensors = (leaf[::step] if getattr(leaf, "ndim", 0) else leaf for leaf in map(as_tensor, outputs_of(values)))
    return None if values is None else rebuilt(values, tensors)


def _passes(check: Callable[[Outputs], bool], answer: Outputs) -> bool:
    try:
        return bool(check(answer))
    except Exception as error:  # a user's check, which may expect nothing like it
        if is_out_of_memory(error):
            raise
        return False


def _is_copy(problem: Problem, inputs: Inputs, index: int, number: int) -> bool:
    """Return whether an output of the reference is a copy of an input whatever the inputs are: of a copying kernel.

    The reference is computed for inputs of other sign and size, so that relu of positive numbers, or a sum with a bias
    of zeros, is none.
    """
    values = [_other_values(value, is_copied=position == number) for position, value in enumerate(inputs)]
    copied = as_tensor(values[number]).clone()
    try:
        with redirected(problem.device):
            output = as_tensor(outputs_of(problem.reference_solution(*values))[index])
        return output.shape == copied.shape and _are_equal(copied.to(output.device, output.dtype), output)
    except Exception as error:  # a user's reference, which may expect nothing like it
        if is_out_of_memory(error):
            raise
        return False


def _other_values(value: Any, *, is_copied: bool) -> Any:
    """Return an input with other values. Integers that are not the copied input may be indices, and stay."""
    tensor = as_tensor(value)
    if not hasattr(tensor, "data_ptr"):
        return value
    if tensor.is_floating_point() or tensor.is_complex():
        other = (tensor.float() if tensor.element_size() == 1 else tensor) * -64 - 3
        other = other.to(tensor.dtype)
    else:
        other = ~tensor if is_copied else tensor.clone()
    return other if tensor is value else other.numpy()


def _answers(
    output: torch.Tensor, inputs: Inputs, other: torch.Tensor | None, is_copy: Callable[[int], bool]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield kind and contents of the null answers for an output, one at a time.

    `is_copy` says of an input by its position whether a copy of it is the right output: then it is no null answer.
    """
    import torch  # noqa: PLC0415 - discovery must work without torch

    yield "zeros", torch.zeros_like(output)
    if output.numel() > 1 and not output.is_complex():  # of a single number the mean is the right answer
        values = output.double()
        mean = float(values[values.isfinite()].mean())
        if math.isfinite(mean):
            constant = torch.full_like(output, mean if output.is_floating_point() else round(mean))
            # Where it is right, and the output depends on the inputs, the mean was computed of these: no null answer
            if other is None or not _are_equal(constant, output) or _are_equal(other.to(output.dtype), output):
                yield "constant", constant
    untouched = output.clone()
    poison(untouched)
    yield "untouched", untouched
    for number, value in enumerate(map(as_tensor, inputs)):
        if hasattr(value, "data_ptr") and value.shape == output.shape and value.is_complex() == output.is_complex():
            copied = value.to(output.dtype, copy=True)
            if not (_are_equal(copied.to(output.device), output) and is_copy(number)):
                yield "copy", copied
    for part in _without_part(output):
        yield "part", part
    if other is not None and other.shape == output.shape:
        stale = other.to(output.dtype)
        figures = accuracy.compare(output, stale) if str(stale.dtype).removeprefix("torch.") in FORMATS else {}
        is_same = _are_equal(stale, output) or accuracy.is_within_norm(figures, longest_sum(inputs))
        yield SAME if is_same else "stale", stale


def _without_part(output: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the output with zeros in a block of rows, and with zeros in a tile: in the median one by its norm.

    Those of zeros do not count. The median, since of an output with few large elements most parts hardly matter.
    """
    import torch  # noqa: PLC0415 - discovery must work without torch

    if output.ndim == 0:
        return
    rows = output.shape[0]
    for columns_parts in (1, PARTS):
        table = output.reshape(rows, -1).clone()
        if columns_parts > 1 and table.shape[1] == 1:
            return
        blocks = table.tensor_split(min(PARTS, rows))
        tiles = [tile for block in blocks for tile in block.tensor_split(min(columns_parts, table.shape[1]), dim=1)]
        reals = (torch.view_as_real(tile) if tile.is_complex() else tile for tile in tiles)
        norms = [(float(tile.double().norm()), number) for number, tile in enumerate(reals)]
        weighty = sorted(pair for pair in norms if pair[0] > 0)
        if len(tiles) > 1 and weighty:
            tiles[weighty[len(weighty) // 2][1]].zero_()
            yield table.reshape(output.shape)
