"""Problems and their implementations on test cases: each verified, then timed in rounds that they take in turn."""

from __future__ import annotations

import importlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from kernel_velocity import lock
from kernel_velocity.compare.apart import kind_of_subjects
from kernel_velocity.compare.implementations import named_dtype
from kernel_velocity.compare.isolation import ProcessJournal
from kernel_velocity.compare.result import Compared, LiveComparison
from kernel_velocity.compare.settings import TimingSettings
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.compare.subject import Bench, Scatter, SharedInputs, Subject, TensorFacts, tensor_facts
from kernel_velocity.engine import gpu, process_state, reported
from kernel_velocity.errors import UsageError
from kernel_velocity.problem import null_answers
from kernel_velocity.problem.problem import NotHereError, Problem, ProblemError, TestCase, outputs_of
from kernel_velocity.problem.problem_file import is_out_of_memory
from kernel_velocity.problem.problem_formats import copies
from kernel_velocity.problem.traffic import traffic
from kernel_velocity.roofline.ceilings import size_text
from kernel_velocity.roofline.model import MemoryLevel, Roofs, memory_of, roofline
from kernel_velocity.runner.host import ALLOCATOR, torch_version
from kernel_velocity.stats import speedup
from kernel_velocity.suite.alone import APART_TURNS
from kernel_velocity.suite.audit import FreshInputs
from kernel_velocity.suite.originals import ORIGINALS
from kernel_velocity.units import memory, significant

Progress = Callable[[str, float], None]  # the current step, and the share of all steps that is done
Turn = TypeVar("Turn")
MEMORY_SHARE = 0.9  # of the free memory that a case may take, since other processes allocate, too
ONE_PROCESS = "all rounds of a row ran in one process: intervals leave out the variation between processes, about 1%"


@dataclass(kw_only=True)
class ComparisonJob:
    """A problem with the implementations and test cases to compare. It is made and used inside `prepared`."""

    problem: Problem
    implementations: Mapping[str, Bind]
    tests: Sequence[TestCase]
    settings: TimingSettings
    compared: list[Compared] = field(default_factory=list)  # what was measured so far


def compare_jobs(
    jobs: Sequence[ComparisonJob],
    roofs: Roofs | None,
    progress: Progress,
    journal: ProcessJournal,
    notes: Sequence[str] = (),
) -> LiveComparison:
    """Compare on every test case that the journal does not have. A case for which memory runs out is left out.

    The settings and the device of all jobs are those of the first.

    Raises:
        UsageError: the reference is not compared, memory ran out for every case, or a problem raised.
        NotHereError: no case was compared, and some are n/a.
    """
    settings, device = jobs[0].settings, jobs[0].problem.device
    for job in jobs:
        if settings.reference not in (None, *job.implementations):
            names = ", ".join(job.implementations)
            raise UsageError(f"--reference must be one of {names} (got {settings.reference!r})")
    began, left_out, missing = time.time(), list[str](), list[str]()
    environment = facts_of(device, settings.threads)
    steps = [(number, job, test) for number, job in enumerate(jobs) for test in job.tests]
    for step, (number, job, test) in enumerate(steps):

        def part(what: str, done: float, step: int = step, name: str = f"{job.problem.name} {test['name']}") -> None:
            progress(f"{name} {what}", (step + done) / len(steps))

        own_journal = journal.part(number)
        compared = own_journal.finished(test["name"])
        if compared is None:
            try:
                with reported.memory_bound(device, MEMORY_SHARE):
                    compared = _compare_case(job, test, roofs, part, own_journal)
            except NotHereError as error:
                missing.append(str(error))
                continue
            except MemoryError as error:
                left_out.append(str(error))
                continue
            own_journal.save(compared)
        job.compared.append(compared)
    cases = [compared for job in jobs for compared in job.compared]
    if not cases:
        raise NotHereError("\nn/a: ".join(missing)) if missing else UsageError(left_out[0])
    reference = settings.reference or next(iter(jobs[0].implementations), "none")
    warnings = [*notes, *(f"n/a: {reason}" for reason in missing), *left_out, ONE_PROCESS]
    warnings += [f"allocator: {NO_ALLOCATOR}"] if environment["allocator"] == NO_ALLOCATOR else []
    warnings += [
        f"{compared.problem}: {note}" for compared in cases for timed in compared.timed for note in timed.notes
    ]
    warnings += [*(roofs.warnings if roofs is not None else ()), *_without_reference(cases, reference)]
    return LiveComparison(
        compared=tuple(cases),
        environment=environment,
        settings={**settings.described(), "reference": reference},
        began=began,
        took=time.time() - began,
        warnings=tuple(dict.fromkeys(warnings)),  # cases repeat them
    )


def _compare_case(
    job: ComparisonJob, test: TestCase, roofs: Roofs | None, progress: Progress, journal: ProcessJournal
) -> Compared:
    """Compare on one test case.

    Raises:
        MemoryError: the case needs more memory than it may use.
    """
    rounds = job.settings.rounds
    progress("computing the reference", 0.0)
    with _out_of_memory(job, test), ExitStack() as stack:
        with journal.running("computing the reference", None, test["name"]):
            bench = _bench(job.problem, test, job.settings, journal)
        kind = kind_of_subjects(job.problem.device, job.implementations, journal)
        subjects = [kind(name, bench) for name in job.implementations]
        for subject in subjects:
            stack.callback(subject.end)
            progress(f"verifying {subject.name}", 0.0)
            subject.set_up(job.implementations[subject.name])
        compared = _facts(bench, test, subjects, roofs)
        for number in range(rounds):
            for turn, subject in enumerate(order([subject for subject in subjects if subject.runs], number)):
                done = (number + turn / len(subjects)) / rounds
                progress(f"round {number + 1}/{rounds} {subject.name}", done)
                subject.take_round(compared)
        for subject in subjects:
            if subject.runs:
                subject.verify("after timing")
        undecided = subjects
        for turn in range(APART_TURNS):
            last = turn == APART_TURNS - 1
            undecided = [subject for subject in undecided if subject.runs and subject.audit(is_last=last)]
            for subject in undecided:
                subject.take_round(compared, counts=False)
        for subject in subjects:
            subject.note_left()
    for subject in subjects:
        if roofs is not None and subject.runs and subject.timed.estimates:
            subject.timed.roofline = roofline(
                flops=compared.flops,
                bytes=compared.bytes,
                seconds=speedup.timing(subject.timed.estimates).seconds,
                roofs=roofs,
                dtype="tf32" if compared.dtype == "float32" and subject.tf32 else compared.dtype,
                working_set=compared.footprint,
            )
    return replace(compared, timed=tuple(subject.timed for subject in subjects))


@contextmanager
def _out_of_memory(job: ComparisonJob, test: TestCase) -> Iterator[None]:
    """Have an error for lack of memory name the case and the cure."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        free = reported.free_memory(job.problem.device)
        rest = "" if free is None else f" ({memory(free)} are free)"
        names = {case["name"] for case in (*job.problem.generate_test_cases(), job.problem.generate_sample())}
        has_others = names - {test["name"]}
        cure = (
            "select smaller cases (--sizes, --sample)" if has_others else "it is the only case: make its inputs smaller"
        )
        raise MemoryError(f"{job.problem.name} {test['name']}: out of memory{rest}; {cure}") from None


def order(turns: Sequence[Turn], number: int) -> list[Turn]:
    """Return the order of turns in round `number`, from 0: A B C, B C A, C A B, then these three backwards.

    So every implementation is first equally often, and equally often runs after either neighbour.
    """
    if not turns:
        return []
    cycle, shift = divmod(number, len(turns))
    rotated = [*turns[shift:], *turns[:shift]]
    return rotated[::-1] if cycle % 2 else rotated


def _bench(problem: Problem, test: TestCase, settings: TimingSettings, journal: ProcessJournal) -> Bench:
    """Make a case's inputs, and what is expected of them.

    Raises:
        UsageError: the problem, which may be a user's file, raised, or its reference changed the inputs.
    """
    ORIGINALS.note(problem)
    where = f"{problem.name} {test['name']}"
    with _user_code(f"{where}: create_inputs"):
        inputs = test["create_inputs"]()
    shared = SharedInputs(problem, inputs)
    same_random = process_state.random_state()

    def reference() -> Any:
        same_random()
        with _user_code(f"{where}: its reference"):
            return problem.expected(*inputs)

    others = None
    with _user_code(f"{where}: create_inputs"):
        drawn = null_answers.other_inputs(test["create_inputs"], inputs)
    if drawn is not None:
        same_random()
        with _user_code(f"{where}: its reference"):
            others = problem.expected(*drawn)
    expected = reference()  # last: a public problem verifies for the last inputs
    ORIGINALS.note(problem)  # it has its model now
    if changed := shared.restore():
        raise UsageError(
            f"{where}: its reference changes its inputs ({changed}), which all implementations share; "
            "make it work on a copy"
        )
    scatter = Scatter.of(expected, reference)
    unfused = problem.get_unfused_bytes(test)
    if unfused is None:
        unfused = traffic(problem.reference_solution, lambda: copies(inputs) if problem.in_place else inputs)
    same_random()
    return Bench(
        problem=problem,
        case=test["name"],
        inputs=inputs,
        fresh=FreshInputs(inputs, test["create_inputs"], os.environ),
        shared=shared,
        same_random=same_random,
        expected=expected,
        others=others,
        scatter=scatter,
        unfused_bytes=unfused,
        settings=settings,
        journal=journal,
    )


@contextmanager
def _user_code(what: str) -> Iterator[None]:
    """Turn an exception of a user's code into a UsageError, unless memory ran out."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, UsageError | ProblemError) or is_out_of_memory(error):
            raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise UsageError(f"{what} raised {reason}") from error


def _without_reference(cases: Sequence[Compared], reference: str) -> Iterator[str]:
    """Yield a warning for each case on which other implementations have a time, and the reference has none."""
    for compared in cases:
        timed = [row.implementation for row in compared.timed if row.failed is None and row.estimates]
        if timed and reference not in timed:
            yield (
                f"{compared.problem} {compared.case}: the reference {reference} has no time there, "
                f"so speed-ups are relative to {timed[0]}"
            )


def _facts(bench: Bench, test: TestCase, subjects: Sequence[Subject], roofs: Roofs | None) -> Compared:
    """Return what a call on a test case does and touches. Outputs are those of an implementation, if one runs."""
    problem = bench.problem
    outputs = next((subject.outputs() for subject in subjects if subject.runs), None)
    tensors = [*tensor_facts(bench.inputs), *(outputs or tensor_facts(outputs_of(bench.expected)))]
    largest = max(tensors, key=attrgetter("size"))
    touched, levels = footprint(problem, test, tensors), roofs or reported_levels(problem.device)
    return Compared(
        problem=problem.name,
        case=test["name"],
        device=problem.device,
        # A product of int8 computes in int8, though its largest tensor is of int32
        dtype=named_dtype(test["name"]) or largest.dtype,
        dims=tuple(test["dims"]),
        elements=largest.elements,
        tensor_bytes=largest.size,
        flops=problem.get_flops(test),
        bytes=problem.get_bytes(test),
        footprint=touched,
        memory=None if levels is None else memory_of(touched, levels),
        unfused_bytes=bench.unfused_bytes,
        timed=(),
    )


def footprint(problem: Problem, test: TestCase, tensors: Sequence[TensorFacts]) -> int:
    """Return the working set of a call: the bytes of memory that it touches, each counted once.

    It is the problem's figure, but at most the size of the tensors: a problem that passes over them again and again has
    more traffic than a cache must hold. Tensors that share their memory count once.
    """
    sizes: dict[int, int] = {}
    for tensor in tensors:
        sizes[tensor.address] = max(tensor.size, sizes.get(tensor.address, 0))
    allocated, stated = sum(sizes.values()), problem.get_footprint(test)
    return allocated if stated is None else min(stated, allocated)


# What it ran on, as text ----------------------------------------------------------------------------------------------

UNKNOWN = "unknown"
# Ours, and those that control threads, allocation, the visible GPU, and PyTorch's arithmetic.
VARIABLES = (
    *("KV_", "OMP_", "MKL_", "GOMP_", "KMP_", "CUDA_", "NVIDIA_", "TORCH", "PYTORCH_", "TRITON_"),
    *("MALLOC_", "GLIBC_"),
)
NO_ALLOCATOR = "not set up: times of large allocations include page faults (use the command `kv compare`)"
_CPUS = Path("/sys/devices/system/cpu")
_FREQUENCIES = "cpu[0-9]*/cpufreq/scaling_cur_freq"
_CPUINFO = Path("/proc/cpuinfo")


def facts_of(device: str, threads: int, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the facts of the machine and of this process, by name.

    Args:
        device: "cpu" or "cuda", which exists.
        threads: of the CPU.
        environ: the environment variables.
    """
    caches, free = reported.data_caches(device), reported.free_memory(device)
    keeps = all(environ.get(name) == value for name, value in ALLOCATOR.items())
    facts = {
        "device": reported.name(device),
        "caches": ", ".join(f"{name} {size_text(size)}" for name, size in caches.items()) or UNKNOWN,
        "free memory": UNKNOWN if free is None else memory(free),
        "clocks": clocks(device),
        "load": significant(os.getloadavg()[0]) if hasattr(os, "getloadavg") else UNKNOWN,
        "cores": str(os.cpu_count()),
        "threads": str(threads),
        "python": platform.python_version(),
        "torch": torch_version() or UNKNOWN,
        "system": f"{platform.system()} {platform.release()}",
        "allocator": "keeps freed memory" if keeps else NO_ALLOCATOR,
    }
    if device == "cuda":
        torch, driver = importlib.import_module("torch"), _nvml()
        facts |= {"cuda": str(torch.version.cuda), "driver": str(driver.get("driver", UNKNOWN))}
        if (power := driver.get("power_limit")) is not None:
            facts["power limit"] = f"{significant(power)} W"
    variables = [name for name in sorted(environ) if name.startswith(VARIABLES) and name != lock.HOLDER]
    return facts | {name: environ[name] for name in variables}


def reported_levels(device: str) -> Roofs | None:
    """Return the memory levels with their reported sizes and no bandwidths, None where no cache is known.

    They say which level holds a working set where no ceiling was measured.
    """
    caches = [MemoryLevel(name=name, size=size, bandwidth=None) for name, size in reported.data_caches(device).items()]
    return Roofs(levels=(*caches, MemoryLevel(name="DRAM", size=None, bandwidth=None)), peaks={}) if caches else None


def clocks(device: str) -> str:
    """Return the clocks now."""
    if device == "cuda":
        driver = _nvml()
        sm, most = _hertz(driver.get("sm_clock")), _hertz(driver.get("sm_clock_most"))
        return f"SM {sm} of {most}, memory {_hertz(driver.get('memory_clock'))}"
    return _hertz(cpu_clock())


def cpu_clock() -> float | None:
    """Return the clock of the fastest core now, Hz: idle cores slow down, the measuring one does not. None: unknown."""
    try:
        clocks = [1e3 * int(file.read_text(encoding="ascii")) for file in _CPUS.glob(_FREQUENCIES)]  # kHz
    except (OSError, ValueError):
        clocks = []
    if not clocks and _CPUINFO.exists():
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
        clocks = [1e6 * float(line.split(":", 1)[1]) for line in lines if line.startswith("cpu MHz")]
    return max(clocks, default=None)


def _hertz(value: float | None) -> str:
    return UNKNOWN if value is None else f"{significant(value / 1e9)} GHz"


def _nvml() -> dict[str, Any]:
    uuid = gpu.uuid()
    described = UNKNOWN if uuid is None else gpu.describe(uuid)
    return described if isinstance(described, dict) else {}
