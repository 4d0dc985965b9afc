"""Measure the ceilings of a machine by the harness's timers: bandwidths, FLOP/s by dtype, the cost of a launch.

A timing that needs more than these cannot be true. Measured is the machine under this torch: a copy is `copy_`, a
product `matmul`, a call costs what a call of torch costs. On CPUs also a suite's native loops (`workloads`).
`from_document` reads what was measured. No torch at import, as other rooms read ceilings, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import cycle
from time import perf_counter
from typing import Any

from kernel_velocity.engine import statistics
from kernel_velocity.engine.reported import cache_size, free_memory, name, reported
from kernel_velocity.engine.sampling import calibrate, warm_up
from kernel_velocity.engine.stopping import without_burn_in
from kernel_velocity.engine.timers import Call, CudaEventTimer, HostTimer, Timer, TorchEvents
from kernel_velocity.engine.timing import prepare_torch
from kernel_velocity.machine.workloads import (
    AROUND,
    BEYOND,
    LACKING,
    MEMORY_SHARE,
    MULTIPLIED,
    MULTIPLY_ADDS,
    STREAMS,
    Stream,
    convolution,
    multiply_adds,
    product,
    reread,
    undisturbed,
)

CEILINGS_FORMAT = 1
# A new timer for each ceiling: what a timer learnt of one (the host cannot keep ahead, so half the queue) ends with it.
NewTimer = Callable[[], Timer]
SECONDS = 0.2  # s of sampling per ceiling: some 35 of them within the 20 s that a first look at a GPU may cost
FEWEST = 7  # samples, however slow the call
SPREAD = 0.05  # a ceiling that spreads more gets a warning: it says little about timings to a few percent
CALL_SHARE = 0.05  # of a copy's time: from here on the call, and not the memory, is what was measured

SMALLEST = {"cpu": 1 << 14, "cuda": 1 << 18}  # bytes: half of a 32 KiB L1; a GPU's launch outlasts anything smaller
ENOUGH = 1 << 30  # bytes: the sweep ends here, or at BEYOND caches if that is more

PRODUCT_SIZES = {"cpu": (256, 512, 1024), "cuda": (1024, 2048, 4096, 8192)}  # of the cubes that are multiplied
LONGEST_PRODUCT = {"cpu": 0.1, "cuda": 0.05}  # s that one product may take, so that there are samples in SECONDS
DTYPES = ("float64", "float32", "tf32", "float16", "bfloat16", "int8")
# Compute capability from which the tensor cores have a type (CUDA C++ Programming Guide, "Compute Capabilities").
# Of the rate of 16 bits, which tensor cores have for int8 (NVIDIA's white papers of A100 and H100). PyTorch's products
# of int8 may be far from it: on an H200 they reach 965 TOPS, and this repository's 1,403.
INT8_RATE = 2
NEEDS = {"tf32": (8, 0), "bfloat16": (8, 0), "int8": (7, 5)}

# The sweep of the caches: one call reads the same set over and over. A single operation of torch costs a microsecond,
# in which a core reads all of its first-level cache twice.
REREAD = "reread"
# Bytes. A quarter of a 32 KiB L1; a GPU's own L1s (256 KiB each) hold nothing of a row that all of them read.
SWEEP_FROM = {"cpu": 1 << 13, "cuda": 1 << 21}
PER_CALL = {"cpu": 1 << 22, "cuda": 1 << 28}  # bytes that a call reads at least: 80 us and more, so that it costs <= 2%
SWEEP_END = 1 << 28  # bytes: the sweep's end where the size of the last cache is not known
SWEEP_SHARE = 8  # at most one part in eight of the free memory


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """One measured ceiling. `value` is None where it could not be measured, and `why` is the reason.

    Attributes:
        what: copy, read, triad, one of AROUND, reread, matmul, MULTIPLY_ADDS, tick, overhead, launch, synchronised
            launch.
        unit: of the value: B/s, FLOP/s or s. A rate is that of an undisturbed call.
        bytes: working set of a bandwidth (all buffers together), else None.
        dtype: of a product. "tf32" is float32 multiplied in TF32.
        n: samples.
        flags: what the timer flagged, such as "underfed" (the device waited for the host).
        spread: robust standard deviation of the samples (interquartile range / 1.349), relative to their median.
    """

    what: str
    unit: str
    value: float | None
    bytes: int | None = None
    dtype: str | None = None
    why: str = ""
    n: int = 0
    spread: float | None = None
    flags: tuple[str, ...] = ()


# Reading --------------------------------------------------------------------------------------------------------------


def from_document(document: Mapping[str, Any]) -> tuple[Ceiling, ...]:
    """Return the ceilings of a document that `measure` made. Of a GPU also those of int8 that follow from 16 bits.

    Raises:
        ValueError: it is of another format.
    """
    if document.get("format") != CEILINGS_FORMAT:
        raise ValueError(f"ceilings of format {document.get('format')!r}: wanted {CEILINGS_FORMAT}")
    measured = tuple(Ceiling(**fields | {"flags": tuple(fields["flags"])}) for fields in document["ceilings"])
    of_16_bits = [c for c in measured if c.what == "matmul" and c.dtype in ("float16", "bfloat16") and c.value]
    if document["device"] != "cuda":
        return measured
    return (
        *measured,
        *(replace(c, dtype="int8", value=INT8_RATE * (c.value or 0.0), spread=None, flags=()) for c in of_16_bits),
    )


def warnings(ceilings: Sequence[Ceiling]) -> list[str]:
    """Return what makes ceilings doubtful: samples that spread, flags, copies that take less time than their call."""
    texts = [f"{_title(ceiling)}: {flag}" for ceiling in ceilings for flag in ceiling.flags]
    if wide := sum(ceiling.spread is not None and ceiling.spread > SPREAD for ceiling in ceilings):
        texts.append(
            f"the samples of {wide} of {len(ceilings)} measurements spread by more than {SPREAD:.0%}: a busy machine"
        )
    launch = next((ceiling.value for ceiling in ceilings if ceiling.what == "launch"), None) or 0.0
    copies = {c.bytes: c.value for c in ceilings if c.what == "copy" and c.bytes and c.value}
    drowned = [size for size, rate in copies.items() if launch * rate / size > CALL_SHARE]
    if drowned:
        texts.append(
            f"copies up to {max(drowned)} bytes: over {CALL_SHARE:.0%} of the time is the call; memory can more"
        )
    return texts


def _title(ceiling: Ceiling) -> str:
    size = f"{ceiling.bytes} bytes" if ceiling.bytes is not None else ceiling.dtype
    return f"{ceiling.what} ({size})" if size else ceiling.what


# Measuring ------------------------------------------------------------------------------------------------------------


def measure(device: str, *, caches: bool = False, loops: str | None = None) -> dict[str, Any]:
    """Measure every ceiling of "cpu" or "cuda". Return the document, ready for JSON.

    Args:
        device: "cpu" or "cuda".
        caches: whether to sweep the caches, too.
        loops: package of the suite's native loops (`workloads`), None for none.

    Raises:
        NotImplementedError: torch or the device is missing.
    """
    prepare_torch(device)
    new_timer, nothing = _clock(device)
    before = reported(device)
    measured = [*_costs(device, new_timer, nothing), *_bandwidths(device, new_timer, loops)]
    measured += [*_products(device, new_timer, loops), *(_sweep(device, new_timer) if caches else ())]
    return {
        "format": CEILINGS_FORMAT,
        "device": device,
        "name": name(device),
        "ceilings": [asdict(ceiling) for ceiling in measured],
        "reported": before | ({"nvml_after": reported(device)["nvml"]} if device == "cuda" else {}),
        "warnings": [*warnings(measured), *_short_sweep(measured, cache_size(device))],
    }


def _short_sweep(ceilings: Sequence[Ceiling], cache: int | None) -> list[str]:
    """Return a warning where no copy went beyond the cache: then memory's own bandwidth is not known."""
    largest = max((ceiling.bytes or 0 for ceiling in ceilings if ceiling.what == "copy" and ceiling.value), default=0)
    if cache is None:
        return ["the size of the last-level cache is not known: the largest copy may lie within it"]
    return [] if largest >= BEYOND * cache else [f"no copy of {BEYOND} times the cache of {cache} bytes: see memory"]


def _clock(device: str) -> tuple[NewTimer, Call]:
    """Return what makes the device's timers, and its empty kernel (on the CPU: the smallest operation of torch)."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    if device == "cuda":
        source = TorchEvents(device)
        return partial(CudaEventTimer, source), source.nothing
    number, result = torch.rand(1), torch.rand(1)
    return HostTimer, lambda: torch.add(number, number, out=result)


def samples_of(call: Call, timer: Timer, seconds: float) -> list[float]:
    """Return samples, seconds per call, as the harness takes them, for `seconds` and at least FEWEST."""
    per_call, batch = calibrate(call, timer)
    timer.flags.clear()
    portion = max(1, min(512, int(seconds / 10 / (per_call * batch))))
    samples: list[float] = []
    began = perf_counter()
    while len(samples) < FEWEST or perf_counter() - began < seconds:
        samples += timer.samples(call, batch, portion)
    return list(without_burn_in(samples))


def spread_of(samples: Sequence[float]) -> float | None:
    """Return the interquartile range / 1.349 (a normal distribution's standard deviation), relative to the median."""
    ordered = sorted(samples)
    median = ordered[len(ordered) // 2]
    if len(ordered) < 4 or median == 0:
        return None
    return (ordered[3 * len(ordered) // 4] - ordered[len(ordered) // 4]) / 1.349 / median


def ceiling_of(make: Callable[[], tuple[Call, float]], new_timer: NewTimer, **identity: Any) -> Ceiling:
    """Measure a rate: `make` returns a call and how much work it does. Where that fails the value is None."""
    timer = new_timer()
    try:
        call, work = make()
        samples = samples_of(call, timer, SECONDS)
    except (RuntimeError, *LACKING) as error:  # out of memory, not for this dtype and device, not in this version
        return Ceiling(value=None, why=(str(error).splitlines() or [repr(error)])[0], **identity)
    rate = work / undisturbed(samples)
    flags = tuple(sorted(timer.flags))
    return Ceiling(value=rate, n=len(samples), spread=spread_of(samples), flags=flags, **identity)


def _duration(what: str, samples: Sequence[float]) -> Ceiling:
    value = statistics.trimmed_mean(samples)
    return Ceiling(what=what, unit="s", value=value, n=len(samples), spread=spread_of(samples))


def _costs(device: str, new_timer: NewTimer, nothing: Call) -> Iterator[Ceiling]:
    """Yield what measuring and launching cost, seconds: the timer's tick and overhead, a launch among launches."""
    timer = new_timer()
    warm_up(nothing, timer)
    yield Ceiling(what="tick", unit="s", value=timer.tick(), n=1)
    yield Ceiling(what="overhead", unit="s", value=timer.overhead(), n=1)
    yield _duration("launch", samples_of(nothing, timer, SECONDS))
    if device == "cuda":
        import torch  # noqa: PLC0415

        synchronise = torch.cuda.synchronize
        yield _duration("synchronised launch", samples_of(lambda: (nothing(), synchronise()), HostTimer(), SECONDS))


def working_sets(smallest: int, cache: int | None, memory: int | None) -> list[int]:
    """Return the sizes of the sweep, bytes: doubled from `smallest` to ENOUGH or BEYOND caches, as memory allows."""
    most = (memory // MEMORY_SHARE) if memory is not None else ENOUGH
    sizes = [smallest]
    while sizes[-1] < max(ENOUGH, BEYOND * (cache or 0)) and 2 * sizes[-1] <= most:
        sizes.append(2 * sizes[-1])
    return sizes


def _bandwidths(device: str, new_timer: NewTimer, loops: str | None) -> Iterator[Ceiling]:
    sizes = working_sets(SMALLEST[device], cache_size(device), free_memory(device))
    once = ("read", "triad", *(AROUND if device == "cpu" else ()))
    for what, size in [*(("copy", size) for size in sizes), *((what, sizes[-1]) for what in once)]:
        make = partial(AROUND[what], loops, size) if what in AROUND else partial(STREAMS[what], device, size)
        yield ceiling_of(make, new_timer, what=what, unit="B/s", bytes=size, dtype="float32")


def sweep_sizes(smallest: int, cache: int | None, memory: int | None) -> list[int]:
    """Return working sets, bytes: two per doubling from `smallest` to the first of at least BEYOND caches.

    As far as memory allows. Each is a multiple of 256 bytes.
    """
    wanted = BEYOND * cache if cache else SWEEP_END
    most = math.inf if memory is None else memory // SWEEP_SHARE
    sizes = [smallest]
    while sizes[-1] < wanted and (size := int(smallest * 2 ** (len(sizes) / 2)) // 256 * 256) <= most:
        sizes.append(size)
    return sizes


def _sweep(device: str, new_timer: NewTimer) -> Iterator[Ceiling]:
    """Yield the pace at which working sets of growing size are read again, B/s: it falls where one outgrows a cache."""
    sizes = sweep_sizes(SWEEP_FROM[device], cache_size(device), free_memory(device))
    calls = reread(device, sizes[-1], PER_CALL[device])
    for size in sizes:
        yield ceiling_of(partial(calls, size), new_timer, what=REREAD, unit="B/s", bytes=size, dtype="float32")


def absent(dtype: str, device: str, capability: tuple[int, int]) -> str:
    """Return why a product in one of DTYPES is not measured, "" where it is. `capability`: of a GPU, any on the CPU."""
    if device == "cpu":
        return {"tf32": "TF32 is a mode of CUDA devices", "int8": "measured on CUDA devices only"}.get(dtype, "")
    if capability < NEEDS.get(dtype, (0, 0)):
        wanted, had = (".".join(map(str, version)) for version in (NEEDS[dtype], capability))
        return f"needs compute capability {wanted}, this device has {had}"
    return ""


def _products(device: str, new_timer: NewTimer, loops: str | None) -> Iterator[Ceiling]:
    import torch  # noqa: PLC0415

    capability = torch.cuda.get_device_capability() if device == "cuda" else (0, 0)
    for dtype in DTYPES:
        identity = {"what": "matmul", "unit": "FLOP/s", "dtype": dtype}
        if why := absent(dtype, device, capability):
            yield Ceiling(value=None, why=why, **identity)  # type: ignore[arg-type]
            continue
        with _tf32(dtype == "tf32"):
            yield ceiling_of(partial(_largest_product, device, dtype, new_timer), new_timer, **identity)
    for dtype in MULTIPLIED if device == "cpu" else ():
        make = partial(multiply_adds, loops, dtype)
        yield ceiling_of(make, new_timer, what=MULTIPLY_ADDS, unit="FLOP/s", dtype=dtype)


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    import torch  # noqa: PLC0415

    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def _largest_product(
    device: str, dtype: str, new_timer: NewTimer, sizes: Sequence[int] | None = None
) -> tuple[Call, float]:
    """Return the largest product that LONGEST_PRODUCT allows, judged by the smallest's time, and its operations."""
    sizes = sizes or PRODUCT_SIZES[device]
    call = product(device, dtype, sizes[0])
    call()
    (seconds,) = new_timer().samples(call, 1, 1)
    n = affordable(sizes, seconds, LONGEST_PRODUCT[device])
    return (call if n == sizes[0] else product(device, dtype, n)), 2 * n**3


def affordable(sizes: Sequence[int], seconds: float, limit: float) -> int:
    """Return the largest cube whose product takes at most `limit` s where that of the first takes `seconds`."""
    return max([n for n in sizes if seconds * (n / sizes[0]) ** 3 <= limit], default=sizes[0])


# What rounds are held against -----------------------------------------------------------------------------------------

# A CPU's float16 is left out: without its instructions a product takes .1 s, and with them bfloat16 is no slower.
ARITHMETIC: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cpu": {"float": ("float32", "bfloat16"), "int8": ("int8",)},
    "cuda": {"float": ("float32", "tf32", "float16", "bfloat16"), "int8": ("int8",)},
}
# Short calls: where five processes shared two cores, hardly one of 4 ms was undisturbed, and memory seemed to have a
# third of its bandwidth. A CPU's products take .3 to 2.4 ms, and its streams are called in turns.
LIMIT_SIZES = {"cpu": (256, 512), "cuda": PRODUCT_SIZES["cuda"]}
TURNS = {"cpu": 16, "cuda": 1}
INNERMOST = (1 << 14, 1 << 15)  # bytes: half of a 32 KiB L1, and all of it
# Bytes that a CPU's memory moves at most for each that is counted: a store may first fetch the line that it fills.
FETCHED = {"copy": 3 / 2, "read": 1.0, "triad": 4 / 3}


def limit_of(name: str, device: str) -> float | None:
    """Measure one of `limits.MARGINS` by torch alone, in a second or two. Return the highest rate, B/s or FLOP/s.

    None where it cannot be measured.

    Raises:
        NotImplementedError: torch or the device is missing.
    """
    prepare_torch(device)
    new_timer, _ = _clock(device)
    rates = {"memory": _memory_rates, "cache": _cache_rates}.get(name, partial(_arithmetic_rates, name))
    return max((rate for rate in rates(device, new_timer) if rate is not None), default=None)


def _rate(make: Callable[[], tuple[Call, float]], new_timer: NewTimer) -> float | None:
    """Return the rate of the fastest sample: one in ten is disturbed, too, where many processes share a core."""
    try:
        call, work = make()
        return work / min(samples_of(call, new_timer(), SECONDS))
    except (RuntimeError, *LACKING):  # as in `ceiling_of`
        return None


def _memory_rates(device: str, new_timer: NewTimer) -> Iterator[float | None]:
    cache, free = cache_size(device), free_memory(device)
    if cache is None or (free is not None and MEMORY_SHARE * BEYOND * cache > free):
        return
    for what, stream in STREAMS.items():
        rate = _rate(partial(_in_turns, stream, device, BEYOND * cache), new_timer)
        yield rate and rate * (FETCHED[what] if device == "cpu" else 1.0)


def _in_turns(stream: Stream, device: str, size: int) -> tuple[Call, float]:
    """Return a call that streams over parts of a set of `size` bytes in turns, and the bytes that a call moves."""
    calls, moved = zip(*(stream(device, size // TURNS[device]) for _ in range(TURNS[device])), strict=True)
    turns = cycle(calls)

    def call() -> None:
        next(turns)()

    return call, moved[0]


def _cache_rates(device: str, new_timer: NewTimer) -> Iterator[float | None]:
    """Yield the pace at which the innermost cache that a call finds filled is read again: a CPU's L1, a GPU's L2."""
    last = cache_size(device)
    sizes = INNERMOST if device == "cpu" else () if last is None else (last // 8, last // 4)
    for size in sizes:
        yield _rate(lambda size=size: reread(device, size, PER_CALL[device])(size), new_timer)  # type: ignore[misc]


def _arithmetic_rates(name: str, device: str, new_timer: NewTimer) -> Iterator[float | None]:
    import torch  # noqa: PLC0415

    capability = torch.cuda.get_device_capability() if device == "cuda" else None
    # Each size on a CPU: a time slice between other processes may end before the largest product does
    choices = [[size] for size in LIMIT_SIZES[device]] if device == "cpu" else [LIMIT_SIZES[device]]
    for dtype in ARITHMETIC[device][name]:
        if capability is None or capability >= NEEDS.get(dtype, (0, 0)):
            with _tf32(dtype == "tf32"):
                for sizes in choices:
                    yield _rate(partial(_largest_product, device, dtype, new_timer, sizes), new_timer)
    if (device, name) == ("cpu", "float"):
        yield _rate(convolution, new_timer)
    if name == "int8" and capability is not None and capability >= NEEDS["bfloat16"]:
        rate = _rate(partial(_largest_product, device, "bfloat16", new_timer, LIMIT_SIZES[device]), new_timer)
        yield rate and INT8_RATE * rate
