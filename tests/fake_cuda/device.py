"""The clock, streams, events and graphs of the fake device. Seconds.

Both clocks are the fake's. The host's moves by a launch, by a reading, and by waiting for the device, the device's by
`seconds_of`. So what is timed does not depend on what a busy CPU takes in the GPU's place.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import shlex
import subprocess
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

Work = Callable[[], object]
Array = tuple[int, int]  # an address and a number of bytes

DEVICES = 2
# An H100 SXM as NVIDIA's datasheet has it (3.35 TB/s, 67 TFLOPS in float32) and the white paper of its architecture
# (50 MB of L2, 132 multiprocessors). Launches cost what results/h200/runs says: (spent - calls) / calls of short ones.
CLOCK = 1.98e9  # Hz, of the multiprocessors
LAUNCH = 3e-6  # s of the host's time: an event, a spin, a replay
LAUNCH_NATIVE, LAUNCH_EAGER, LAUNCH_TRITON = 6e-6, 10e-6, 28e-6  # s; of eager each operation
READING = 5e-8  # s of the host's time that reading its clock takes
SHORTEST = 1.5e-6  # s of the device's time, that any kernel takes
MEMORY, CACHE = 3.35e12, 10e12  # B/s
CACHE_SIZE = 50 << 20  # bytes
ARITHMETIC = 67e12  # FLOP/s
AHEAD = 1e-3  # s: work that begins later than that is done when it is waited for
REMEMBERED = 64  # computations
POOL = 32  # streams of a device: PyTorch, too, gives each again
MOST_FLOPS = 4e9  # of one product: 512 or 1024 cubed, half a second of a CPU


class Clock:
    """The host's time. It moves by what is said to cost time, whatever the fake costs."""

    def __init__(self) -> None:
        self.now = 0.0

    def read_ns(self) -> int:
        self.now += READING
        return round(self.now * 1e9)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait_until(self, at: float) -> None:
        """Let the time pass until then."""
        self.now = max(self.now, at)


HOST = Clock()
NOISE = random.Random(1)  # of what a kernel takes: no two samples are equal on a device


class Cache:
    """The second-level cache: what was touched last, by address."""

    def __init__(self) -> None:
        self._held: OrderedDict[Array, None] = OrderedDict()
        self._bytes = 0

    def seconds(self, arrays: Iterable[Array]) -> float:
        """Touch arrays, each an address and a number of bytes. Return the s that moving them takes."""
        total = 0.0
        for array in arrays:
            held = array in self._held
            total += array[1] / (CACHE if held else MEMORY)
            if held:
                self._held.move_to_end(array)
            elif array[1] <= CACHE_SIZE:
                self._held[array] = None
                self._bytes += array[1]
            else:
                self._held.clear()
                self._bytes = 0
            while self._bytes > CACHE_SIZE:
                self._bytes -= self._held.popitem(last=False)[0][1]
        return total


CACHES = [Cache() for _ in range(DEVICES)]


def seconds_of(device: int, arrays: Iterable[Array], flops: float = 0.0) -> float:
    """Return how long the device takes for a kernel that touches these arrays.

    A product that a CPU would compute for seconds skips the test that wants it.
    """
    if flops > MOST_FLOPS:
        pytest.skip(f"a product of {flops / 1e9:.0f} GFLOP: a CPU takes too long in a GPU's place")
    return SHORTEST + max(CACHES[device].seconds(arrays), flops / ARITHMETIC)


class Done:
    """What was computed last and still holds: the same again would give the same, so nobody computes it.

    A timer repeats a call a thousand times. Arrays are addresses and numbers of bytes.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[object, list[Array]] = OrderedDict()
        self._results: dict[object, Any] = {}  # key -> memory that nobody uses at present

    def take(self, key: object) -> Any:
        """Return the tensor of a result that still holds, for its next user. None where there is none."""
        return self._results.pop(key, None)

    def give_back(self, key: object, tensor: Any) -> None:
        """Keep the tensor of a result that was freed: an allocator, too, gives the same memory to the same call."""
        arrays = self._entries.get(key)
        if arrays == [] or (arrays and (tensor.data_ptr(), tensor.nbytes) in arrays):  # []: what it holds is nothing
            self._results[key] = tensor

    def run(self, key: object, reads: list[Array], writes: list[Array], work: Work) -> None:
        """Do the work, but where it is done. A key of None: always."""
        if key in self._entries:
            return
        work()
        self.forget(writes)
        if key is not None and not _overlap(reads, writes):
            self.remember(key, [*reads, *writes])

    def remember(self, key: object, arrays: list[Array]) -> None:
        """Remember a computation until one of its arrays is written."""
        self._entries[key] = arrays
        if len(self._entries) > REMEMBERED:
            oldest, _ = self._entries.popitem(last=False)
            self._results.pop(oldest, None)

    def forget(self, written: list[Array]) -> None:
        """Forget what depends on memory that is written."""
        for key, arrays in list(self._entries.items()):
            if _overlap(arrays, written):
                del self._entries[key]
                self._results.pop(key, None)


def _overlap(some: list[Array], others: list[Array]) -> bool:
    for address, size in some:
        for other, length in others:
            if address < other + length and other < address + size:
                return True
    return False


DONE = Done()
LIVE: dict[int, int] = {}  # what is allocated: address -> bytes


def check_live(arrays: Iterable[Array]) -> None:
    """Raise StreamError where a kernel touches memory that was freed: a graph that outlives its tensors does."""
    for address, size in arrays:
        if size and not any(start <= address and address + size <= start + length for start, length in LIVE.items()):
            raise StreamError(f"CUDA error: an illegal memory access was encountered ({size} bytes at {address:#x})")


# Streams --------------------------------------------------------------------------------------------------------------


class StreamError(RuntimeError):
    """What CUDA refuses."""


CAPTURING = "CUDA error: operation not permitted when stream is capturing"


@dataclass
class Queue:
    """The work of a stream. `until` is the time at which all of it is done."""

    device: int
    handle: int
    until: float = 0.0
    waiting: list[Work] = field(default_factory=list)
    capture: list[tuple[Work, float]] | None = None
    is_replayed: bool = False  # whether a graph does its work again

    def launch(self, work: Work, seconds: float, host: float = LAUNCH) -> None:
        """Enqueue work. It is done at once, but where the stream is busy, when somebody waits for it.

        `seconds` are the device's, `host` those that the call takes.
        """
        if self.capture is not None:
            self.capture.append((work, seconds))
            return
        HOST.now += host
        begin = max(HOST.now, self.until)
        self.until = begin + seconds * NOISE.uniform(0.99, 1.01)
        if self.waiting or begin > HOST.now + AHEAD:
            self.waiting.append(work)
        else:
            work()

    def finish(self) -> None:
        """Do what waits. The clock stays."""
        works, self.waiting = self.waiting, []
        for work in works:
            work()

    def synchronize(self) -> None:
        """Wait until all of it is done."""
        if Graph.captures:
            raise StreamError(CAPTURING)
        self.finish()
        HOST.wait_until(self.until)


QUEUES = {handle: Queue(handle % DEVICES, handle) for handle in range(0x1000, 0x1000 + POOL * DEVICES)}
_POOLS = [itertools.cycle([q for q in QUEUES.values() if q.device == device]) for device in range(DEVICES)]
DEFAULT = [Queue(device, 0) for device in range(DEVICES)]
CURRENT: list[Queue] = list(DEFAULT)
_GUARD: list[Any] = []  # the library of guard.cpp


def build(folder: Path) -> Path:
    """Return the library that tells PyTorch's C++ which device is current. It is built if it is not in the folder."""
    import torch

    of_torch, library = Path(torch.__file__).parent, folder / "guard.so"
    command = [
        *shlex.split(os.environ.get("CXX", "c++")),
        "-std=c++20",
        "-shared",
        "-fPIC",
        f"-I{of_torch / 'include'}",
    ]
    command += [str(Path(__file__).with_name("guard.cpp")), f"-L{of_torch / 'lib'}", "-lc10", "-o", str(library)]
    if not library.exists():
        subprocess.run(command, check=True)
    return library


def plant(folder: Path) -> None:
    """Tell PyTorch's C++ which device is current."""
    _GUARD.append(ctypes.CDLL(str(build(folder))))


def current_device() -> int:
    return exchange_device(-1)


def queue_of(device: int, handle: int) -> Queue:
    """Return the queue of a handle. 0 is the default stream of the device."""
    return QUEUES[handle] if handle else DEFAULT[device]


def index_of(device: Any = None) -> int:
    """Return the index of a device as PyTorch takes it: an object, "cuda:1", 1, None for the current one."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        index = device
    else:
        text = str(device)
        assert text.startswith("cuda"), f"no CUDA device: {device}"
        index = int(text.partition(":")[2] or current_device())
    if index < 0:
        return current_device()
    if index >= DEVICES:
        raise StreamError("CUDA error: invalid device ordinal")
    return index


def exchange_device(index: int) -> int:
    """Make a device current. Return the one that was. -1 changes nothing."""
    before: int = _GUARD[0].fake_cuda_device(index if index < 0 else index_of(index))
    return before


class Stream:
    """In place of torch.cuda.Stream."""

    def __init__(self, device: Any = None, priority: int = 0, *, queue: Queue | None = None) -> None:
        if queue is None:
            queue = next(_POOLS[index_of(device)])
        self.queue, self.priority = queue, priority
        self.cuda_stream = self.stream_id = queue.handle
        self.device_index, self.device_type = queue.device, 1

    @property
    def device(self) -> Any:
        import torch

        return torch.device("cuda", self.queue.device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.queue is self.queue

    def __hash__(self) -> int:
        return id(self.queue)

    def synchronize(self) -> None:
        self.queue.synchronize()

    def query(self) -> bool:
        return self.queue.until <= HOST.now

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        if event.queue is not None:
            event.queue.finish()
        self.queue.until = max(self.queue.until, event.at)

    def wait_stream(self, stream: Stream) -> None:
        self.wait_event(stream.record_event())


def external_stream(handle: int, device: Any = None) -> Stream:
    """In place of torch.cuda.ExternalStream."""
    assert handle in QUEUES, f"no stream has the handle {handle:#x}"
    assert QUEUES[handle].device == index_of(device), "a stream of another device"
    return Stream(queue=QUEUES[handle])


def current_stream(device: Any = None) -> Stream:
    return Stream(queue=CURRENT[index_of(device)])


def default_stream(device: Any = None) -> Stream:
    return Stream(queue=DEFAULT[index_of(device)])


def set_stream(stream: Stream | None) -> None:
    if stream is not None:
        exchange_device(stream.queue.device)
        CURRENT[stream.queue.device] = stream.queue


def synchronize(device: Any = None) -> None:
    index = index_of(device)
    for queue in (DEFAULT[index], *QUEUES.values()):
        if queue.device == index:
            queue.synchronize()


def sleep(cycles: int) -> None:
    """In place of torch.cuda._sleep."""
    CURRENT[current_device()].launch(lambda: None, SHORTEST + int(cycles) / CLOCK)


class Event:
    """In place of torch.cuda.Event."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        assert not interprocess and blocking in (False, True)
        self._times, self.at = enable_timing, 0.0
        self.queue: Queue | None = None

    def record(self, stream: Stream | None = None) -> None:
        self.queue = CURRENT[current_device()] if stream is None else stream.queue
        self.at = self.queue.until = max(HOST.now, self.queue.until)

    def query(self) -> bool:
        return self.at <= HOST.now

    def synchronize(self) -> None:
        if self.queue is not None:
            self.queue.finish()
            HOST.wait_until(self.at)

    def wait(self, stream: Stream | None = None) -> None:
        (stream or current_stream()).wait_event(self)

    def elapsed_time(self, later: Event) -> float:
        """Return milliseconds."""
        if not (self._times and later._times):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.queue is None or later.queue is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and later.query()):
            raise StreamError("CUDA error: device not ready")
        return (later.at - self.at) * 1e3


# Graphs ---------------------------------------------------------------------------------------------------------------


class Graph:
    """In place of torch.cuda.CUDAGraph."""

    captures = 0  # how many are being captured

    def __init__(self, keep_graph: bool = False) -> None:
        assert not keep_graph
        self._works: list[tuple[Work, float]] = []
        self._queue = DEFAULT[0]

    def capture_begin(self) -> None:
        self._queue = CURRENT[current_device()]
        if self._queue.handle == 0:
            raise StreamError("CUDA graphs must be captured on a non-default stream.")
        self._queue.capture = []
        Graph.captures += 1

    def capture_end(self) -> None:
        if self._queue.capture is None:
            return  # it was refused
        self._works, self._queue.capture = self._queue.capture, None
        Graph.captures -= 1
        if not self._works:
            warnings.warn("The CUDA Graph is empty. This usually means that the graph was attempted", stacklevel=2)

    def replay(self) -> None:
        CURRENT[current_device()].launch(self._run, sum(seconds for _, seconds in self._works))

    def _run(self) -> None:
        self._queue.is_replayed = True
        for work, _ in self._works:
            work()
        self._queue.is_replayed = False


@contextmanager
def graph(captured: Graph, *, stream: Stream | None = None) -> Iterator[None]:
    """In place of torch.cuda.graph: capture what the block launches, on a stream of its own if none is given."""
    before = current_stream()
    synchronize()
    set_stream(stream or Stream())
    captured.capture_begin()
    try:
        yield
    finally:
        captured.capture_end()
        set_stream(before)
