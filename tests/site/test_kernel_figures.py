"""Figures of the compiled code: what they are now, and which commits changed them."""

import numpy as np

from kernel_velocity.harness import cases
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.series.past import Tracked
from kernel_velocity.site.pages import kernel_tables
from tests.findings.nights import identity

LINE = ("a", "b", "c", "d", "e")


def tracked(method, values, *, case="sm_90", benchmark="matmul.Cuda", machine="m"):
    key = SeriesKey(
        machine=machine,
        environment="e",
        benchmark=f"{benchmark}.{method}",
        implementation="native",
        case=case,
        version="1",
    )
    return Tracked(
        key=key,
        place=np.array(list(values), dtype=np.int32),
        value=np.array(list(values.values()), dtype=float),
        began=np.full(len(values), np.nan),
    )


REGISTERS = tracked("track_registers", {0: 168, 1: 168, 3: 128, 4: 128})
CODE = tracked("track_code_bytes", {2: 14534}, benchmark="matmul.Cpu", case="avx512")


def test_a_figure_is_its_values_and_the_commits_that_brought_them():
    registers, code = kernel_tables.figures([REGISTERS, CODE], "matmul", LINE)
    assert registers.steps == (("a", 168), ("d", 128))
    assert (registers.name, registers.unit) == ("registers", "registers of a thread")
    assert code.steps == (("c", 14534),)


def test_errors_and_other_kernels_are_none():
    others = [tracked("track_max_error", {0: 1}), tracked("track_registers", {0: 1}, benchmark="other.Cuda")]
    assert kernel_tables.figures(others, "matmul", LINE) == ()


def test_there_are_words_for_every_figure():
    assert set(kernel_tables._WORDS) == {name for names in cases.FIGURES.values() for name in names}


def test_a_row_says_what_it_is_since_when_and_what_it_was():
    one, other = kernel_tables.rows(kernel_tables.figures([REGISTERS, CODE], "matmul", LINE), lambda sha: sha)
    assert (one.name, one.target, one.now, one.before, one.commit) == (
        "registers of a thread",
        "sm_90",
        "128",
        "168",
        "d",
    )
    assert (other.name, other.now, other.before, other.commit) == ("code", "14,534 bytes", "", "c")
    (grown,) = kernel_tables.rows(
        kernel_tables.figures([tracked("track_spill_bytes", {0: 16, 1: 1024})], "matmul", LINE), lambda sha: sha
    )
    assert (grown.now, grown.before) == ("1,024 bytes", "16 bytes")


def test_the_data_has_every_step():
    (figure,) = kernel_tables.figures([REGISTERS], "matmul", LINE)
    assert kernel_tables.as_data(figure) == {
        "machine": "m",
        "environment": "e",
        "benchmark": "matmul.Cuda.track_registers",
        "target": "sm_90",
        "unit": "registers of a thread",
        "commit": ["a", "d"],
        "value": [168, 128],
    }


def test_figures_are_not_timed_and_nothing_else_but_errors():
    assert identity(benchmark="matmul.Cuda.track_registers").is_figure
    assert not identity(benchmark="matmul.Cuda.track_spill_bytes").is_timed
    assert not identity(benchmark="matmul.Cpu.track_max_error").is_timed
    assert identity().is_timed and not identity().is_figure
    assert identity(benchmark="device.Cpu.track_dram_read_bandwidth").is_timed
