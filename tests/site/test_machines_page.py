"""The pages of machines and rooflines: what they say of real, doubtful and missing records."""

import math

import pytest

from kernel_velocity.results import lines
from kernel_velocity.site.pages import machines
from kernel_velocity.site.pages import roofline as roofline_page
from tests import synthetic
from tests.golden import check_golden
from tests.site import machine_records
from tests.site.pages import GOLDEN, edit, page_of, read, rendered, results_file, shown, words


@pytest.fixture
def tree(copied):
    """Quicker than a fresh one: nothing here changes the repository."""
    return copied


def made(tree):
    """Return the sections of the page."""
    (page,) = machines.build(read(tree))
    return [shown(machine) for machine in page.context["machines"]]


def section(tree):
    (section,) = made(tree)
    return section


def add_sessions(tree):
    """Add three sessions: the second found another governor, the third another peak."""
    for index, (governor, peak) in enumerate((("performance", 90e9), ("powersave", 91e9), ("powersave", 80e9))):
        machine_records.add_session(tree, index, governor=governor)
        machine_records.add_ceilings(tree, index, peak_float32=peak)


def test_ceilings_golden(tree, accept):
    add_sessions(tree)
    (page,) = machines.build(read(tree))
    check_golden(GOLDEN / "ceilings.txt", words(page) + "\n", accept=accept)


def test_machine_without_ceilings(tree):
    text = rendered(page_of(machines, tree))
    assert "kv peaks" in text and "make track" in text


def test_peaks_of_this_machine(tmp_path, monkeypatch):
    from kernel_velocity.roofline import ceilings
    from tests.machine.test_device_figures import a_machine, document

    tree = synthetic.build(tmp_path)
    monkeypatch.delenv("KV_THREADS", raising=False)
    ceilings.keep(tree.repository, document(a_machine()))
    assert section(tree).devices == []
    monkeypatch.setenv("KV_MACHINE", synthetic.MACHINE)
    machine = section(tree)
    (device,) = machine.devices
    assert [commit.text for _, commit, *_ in device.sessions.rows] == ["–"]
    assert not device.is_compared and [*device.ceilings.columns] == ["ceiling", "roof in use"]


def remarks(tree, index=0):
    """Return all that the page remarks about a machine."""
    return "\n".join(made(tree)[index].remarks)


def test_two_machines_of_one_name(tree):
    for index, cpu in enumerate(("Imaginary 9000", "Other 1", "Imaginary 9000")):
        machine_records.add_session(tree, index, cpu=cpu)
    assert "two machines seem to share this name" in remarks(tree)
    machine_records.add_session(tree, 3, cpu="Other 1")
    assert "machine.json says its cpu is Imaginary 9000, the newest session found Other 1" in remarks(tree)


def test_machine_renamed_or_without_metadata(tree):
    path = tree.results / synthetic.MACHINE / "machine.json"
    edit(path, lambda data: data.update(machine="old-name"))
    assert "its machine.json says old-name" in remarks(tree)
    path.unlink()
    assert "machine.json is missing" in remarks(tree)


def test_same_hardware_under_another_name(tree):
    described = {**synthetic.machine_json(synthetic.MACHINE), "arch": "x86_64"}
    for name in (synthetic.MACHINE, "bench-new"):
        synthetic.write_json(tree.results / name / "machine.json", {**described, "machine": name})
    assert "the same hardware as bench-new" in remarks(tree)
    assert "the same hardware as bench-1" in remarks(tree, 1)
    edit(tree.results / "bench-new" / "machine.json", lambda data: data.update(cpu="X"))
    assert "same hardware" not in remarks(tree)


def test_many_sessions_are_counted(tree, monkeypatch):
    add_sessions(tree)
    monkeypatch.setattr(machines, "LISTED", 2)
    device = section(tree).devices[0]
    assert [commit.text for _, commit, *_ in device.sessions.rows] == [sha[:8] for sha in tree.commits[2:0:-1]]
    assert device.sessions.further == "and 1 older session"


@pytest.mark.parametrize("when", [1e300, -1e300])
def test_session_of_no_calendar_time(tree, when):
    machine_records.add_ceilings(tree, 0, began=when / 1000)
    assert section(tree).devices[0].sessions.rows[0][0] == "at no known time"


# ---- rooflines --------------------------------------------------------------------------------------------------


def rooflines(tree):
    """Return the sections of the page."""
    (page,) = roofline_page.build(read(tree))
    return [shown(section) for section in page.context["sections"]]


def row(section, kernel="add_mul_exp", implementation="native", case="float32-5M"):
    wanted = (kernel, implementation, case)
    (line,) = [line for line in section.rows if (line.kernel, line.implementation, line.case) == wanted]
    return line


def test_roofline_rows_use_their_threads(tree):
    """The newest commit was measured with 8 threads, but for add_mul_exp, and the others with one."""
    for index, threads in ((0, 1), (4, 8)):
        machine_records.add_ceilings(tree, index, threads=threads, peak_float32=threads * 1e9)
    for index in range(5):
        machine_records.add_session(tree, index, threads="8" if index == 4 else "1")
    edit(machine_records.results_file(tree, 4), lambda data: data["results"].pop("add_mul_exp.Cpu.time_hot"))
    (section,) = rooflines(tree)
    rows = {row.kernel: row.attainable for row in section.rows}
    assert rows == {"matmul": "8.00 GFLOPS", "add_mul_exp": "1.00 GFLOPS"}


def test_roofline_warnings_are_footnotes(tree):
    machine_records.add_ceilings(tree, 0, peak_float32=1e9)
    (section,) = rooflines(tree)
    marked = {line.marks for line in section.rows if line.marks}
    assert len(section.footnotes) == 1 and marked == {(1,)}
    assert section.footnotes[0].startswith("more than the peak, which no cache explains")
    assert any(line.detail == "of float32 peak" for line in section.rows)


def test_roofline_of_unknown_amounts(tree):
    machine_records.add_ceilings(tree, 0)

    def forget(data):
        del data["add_mul_exp.Cpu.time_hot"]["bytes"], data["matmul.Cpu.time_hot"]["flops"]

    edit(tree.results / "benchmarks.json", forget)
    (section,) = rooflines(tree)
    line = row(section)
    assert (line.intensity, line.efficiency, line.achieved) == ("–", "–", "12.5 GFLOPS")
    assert roofline_page.NO_AMOUNT in section.footnotes
    copied = row(section, "matmul", "native", "float32-512x512x512")
    assert copied.achieved.endswith("B/s") and copied.bound == "memory"


def test_roofline_without_a_peak(tree):
    machine_records.add_ceilings(tree, 0, peak_float32=None)
    (section,) = rooflines(tree)
    assert row(section, "matmul", "native", "float32-512x512x512").bound == "memory"
    assert "the peak in float32 is not known: it is no roof here" in section.footnotes


def test_simulated_traffic_beside_the_model(tree):
    def count(data):
        data["matmul.Cpu.track_ll_misses"] = {"type": "track", "version": "1"}
        timed = data["matmul.Cpu.time_hot"]
        timed["bytes"]["float32-8x8x8"], timed["flops"]["float32-8x8x8"] = 768, 1024

    edit(tree.results / "benchmarks.json", count)
    axes = [["'native'", "'other'"], ["'float32-8x8x8-avx2'", "'float32-unknown-avx2'"]]
    for index, misses in ((0, 99.0), (3, 15.0)):
        values = [[misses, 1.0, None, None], axes, "1", 1767225600000, 1.0]
        edit(
            results_file(tree, index), lambda data, v=values: data["results"].update({"matmul.Cpu.track_ll_misses": v})
        )
    (section,) = rooflines(tree)
    assert section.traffic.rows == [
        ("matmul, float32-8x8x8, native", "768 B", "960 B, 1.25 times", "1.33 FLOP/B", "1.07 FLOP/B")
    ]
    assert "1.25 times" in rendered(page_of(roofline_page, tree))


# ---- records ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("environment", ["host-py3.11-torch2.13.0+cpu", "e" * 127, "e" * 128, "\N{ROCKET}" * 200])
def test_file_names_are_asvs(environment):
    from asv.results import get_filename

    assert get_filename("m", "c" * 40, environment) == f"m/{lines.stem('c' * 40, environment)}.json"


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, "x", True, None])
def test_ceiling_that_is_no_rate(tree, value):
    machine_records.add_ceilings(tree, 0, dram_copy_bandwidth=20e9, dram_read_bandwidth=value, peak_float64=value)
    site = read(tree)
    roofs = site.roof_choice(site.platforms[0], "Cpu").roofs
    assert roofs.levels[-1].bandwidth == 26e9  # of the triad
    assert roofs.peaks["float64"] is None


def test_damaged_block_of_a_fleet_is_a_note(tree):
    path = tree.results / synthetic.MACHINE / "runs" / "1" / "block.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert any("block.jsonl: not JSON: " in note for note in read(tree).notes)
    path.write_text('{"format": 2}')
    assert any(
        "block.jsonl: format 2: this kernel-velocity reads 1 at most: update it" in note for note in read(tree).notes
    )
