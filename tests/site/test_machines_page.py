"""The pages of machines and rooflines: what they say of real, doubtful and missing records."""

import json
import math

import pytest

from kernel_velocity.results import lines
from kernel_velocity.site.pages import machines
from kernel_velocity.site.pages import roofline as roofline_page
from kernel_velocity.site.writer import DataFile, Page
from tests import synthetic
from tests.site import machine_records
from tests.site.pages import page_of, read, rendered, results_file, shown


@pytest.fixture
def tree(copied):
    """Quicker than a fresh one: nothing here changes the repository."""
    return copied


def made(tree):
    """Return the sections of the page, and its data."""
    page, data = machines.build(read(tree))
    assert isinstance(page, Page) and isinstance(data, DataFile)
    return [shown(machine) for machine in page.context["machines"]], data.value


def section(tree):
    (found,) = made(tree)[0]
    return found


def add_sessions(tree):
    """Add three sessions: the second found another governor, the third another peak."""
    for index, (governor, peak) in enumerate((("performance", 90e9), ("powersave", 91e9), ("powersave", 80e9))):
        machine_records.add_session(tree, index, governor=governor)
        machine_records.add_ceilings(tree, index, peak_float32=peak)


@pytest.fixture(scope="module")
def whole(copy_of, tmp_path_factory):
    """The section and the data of a machine with three sessions, and its commits."""
    tree = copy_of(tmp_path_factory.mktemp("whole"))
    add_sessions(tree)
    (machine,), data = made(tree)
    return machine, data, tree.commits


def ceiling(machine, title):
    """Return the columns of a ceiling: roof, newest, change, history."""
    (columns,) = (columns for name, *columns in machine.devices[0].ceilings.rows if name == title)
    return columns


def test_a_ceiling_that_moved_by_over_five_percent_is_named(whole):
    machine, _, _ = whole
    roof, newest, change, chart = ceiling(machine, "peak float32")
    assert ("moved" in change, change.striptags(), newest) == (True, "-11.6% moved", "80.0 GFLOPS")
    assert (roof.text, roof.detail) == ("90.5 GFLOPS", "upper quartile of 3 sessions")
    assert (chart.count("<circle"), chart.count("moved")) == (3, 1)
    assert "moved" not in ceiling(machine, "L2 bandwidth")[2]
    sessions = machine.devices[0].sessions
    column = [*sessions.columns].index("peak float32")
    values = [row[column] for row in sessions.rows]
    assert ("moved" in values[0], values[0].striptags()) == (True, "80.0 GFLOPS moved")
    assert values[1:] == ["91.0 GFLOPS", "90.0 GFLOPS"]


def test_a_fact_that_changed_is_told_with_its_commit(whole):
    machine, _, commits = whole
    ((when, name, before, after, commit, _),) = machine.changes.rows
    assert (when, name, before, after) == ("2026-01-01 00:16 UTC", "governor", "performance", "powersave")
    assert commit.href == f"commit-{commits[1][:8]}.html"


def test_the_data_hold_every_session_in_base_units(whole):
    _, data, commits = whole
    (entry,) = data["machines"]
    cpu = entry["devices"]["Cpu"]
    assert cpu["figures"]["peak_float32"] == [90e9, 91e9, 80e9]
    assert cpu["units"]["peak_float32"] == "FLOP/s"
    assert cpu["commit"] == list(commits[:3])
    assert cpu["roof"]["peak_float32"] == 90.5e9
    assert list(entry["devices"]) == ["Cpu"]


def test_without_ceilings_it_says_how_to_get_some(tree):
    text = rendered(page_of(machines, tree))
    assert "kv peaks" in text and "make track" in text


def test_of_one_session_there_is_nothing_to_compare_and_no_chart_to_explain(tree):
    for index in (1, 2):
        text = rendered(page_of(machines, tree))
        assert ("Measured once" in text) == (index == 2)
        for said in ("over the sessions", "the only session", "Each chart shows a session"):
            assert said not in text
        machine_records.add_ceilings(tree, index)
    text = rendered(page_of(machines, tree))
    assert "over the sessions" in text and "Each chart shows a session" in text and "2 sessions" in text


def test_peaks_of_the_machine_that_makes_the_page_count(tmp_path, monkeypatch):
    from kernel_velocity.roofline import ceilings
    from tests.harness.test_device_figures import a_machine, document

    tree = synthetic.build(tmp_path)
    monkeypatch.delenv("KV_THREADS", raising=False)
    ceilings.keep(tree.repository, document(a_machine()))
    assert section(tree).devices == []
    monkeypatch.setenv("KV_MACHINE", synthetic.MACHINE)
    machine = section(tree)
    (device,) = machine.devices
    assert [commit.text for _, commit, *_ in device.sessions.rows] == ["–"]
    assert not device.is_compared and [*device.ceilings.columns] == ["ceiling", "roof in use"]


def test_two_devices_under_one_name_are_kept_apart_and_named(tree):
    add_sessions(tree)
    machine_records.add_ceilings(tree, 3, device_id=7, peak_float32=10e9)
    found = section(tree)
    assert any("3 sessions measured the ceilings of another Cpu under this name" in text for text in found.remarks)
    assert ceiling(found, "peak float32")[0].text == "10.0 GFLOPS"


def test_two_machines_of_one_name_with_different_hardware(tree):
    for index, cpu in enumerate(("Imaginary 9000", "Other 1", "Imaginary 9000")):
        machine_records.add_session(tree, index, cpu=cpu)
    assert any("two machines seem to share this name" in text for text in section(tree).remarks)
    machine_records.add_session(tree, 3, cpu="Other 1")
    assert "machine.json says its cpu is Imaginary 9000, the newest session found Other 1" in section(tree).remarks


def test_a_machine_without_metadata_and_a_renamed_one(tree):
    path = tree.results / synthetic.MACHINE / "machine.json"
    described = json.loads(path.read_text())
    path.write_text(json.dumps({**described, "machine": "old-name"}))
    assert any("its machine.json says old-name" in text for text in section(tree).remarks)
    path.unlink()
    assert any("machine.json is missing" in text for text in section(tree).remarks)


def test_the_same_hardware_under_another_name(tree):
    described = {**synthetic.machine_json(synthetic.MACHINE), "arch": "x86_64"}
    for name in (synthetic.MACHINE, "bench-new"):
        synthetic.write_json(tree.results / name / "machine.json", {**described, "machine": name})
    first, second = made(tree)[0]
    assert any("the same hardware as bench-new" in text for text in first.remarks)
    assert any("the same hardware as bench-1" in text for text in second.remarks)
    assert second.environments.rows == []
    synthetic.write_json(tree.results / "bench-new" / "machine.json", {**described, "cpu": "X", "machine": "bench-new"})
    assert not any("same hardware" in text for text in made(tree)[0][0].remarks)


def test_many_sessions_are_listed_newest_first_up_to_a_limit(tree, monkeypatch):
    add_sessions(tree)
    monkeypatch.setattr(machines, "LISTED", 2)
    device = section(tree).devices[0]
    assert [commit.text for _, commit, *_ in device.sessions.rows] == [sha[:8] for sha in tree.commits[2:0:-1]]
    assert device.sessions.further == "1 older session in data/machines.json"


@pytest.mark.parametrize("when", [1e300, -1e300])
def test_a_time_that_no_calendar_has(tree, when):
    machine_records.add_ceilings(tree, 0, began=when / 1000)
    assert section(tree).devices[0].sessions.rows[0][0] == "at no known time"


def test_hostile_names_stay_text(tmp_path):
    script = "<script>window.pwned=1</script>"
    tree = synthetic.build(tmp_path, machine="<i>m")
    machine_records.add_session(tree, 0, machine="<i>m", governor=script)
    machine_records.add_session(tree, 1, machine="<i>m", governor="}}" + script)
    text = rendered(page_of(machines, tree))
    assert "<i>" not in text and script not in text
    assert "&lt;script&gt;window.pwned=1" in text


# ---- rooflines --------------------------------------------------------------------------------------------------


def rooflines(tree):
    """Return the sections of the page, and its data files by name."""
    files = list(roofline_page.build(read(tree)))
    (page,) = [file for file in files if isinstance(file, Page)]
    data = {file.name: file.value for file in files if isinstance(file, DataFile)}
    return [shown(section) for section in page.context["sections"]], data


@pytest.fixture(scope="module")
def roofed(copy_of, tmp_path_factory):
    """The section and the data file of a tree with ceilings, and its commits."""
    tree = copy_of(tmp_path_factory.mktemp("roofed"))
    machine_records.add_ceilings(tree, 0)
    (section,), files = rooflines(tree)
    return section, files[section.data], tree.commits


def row(section, kernel="add_mul_exp", implementation="native", case="float32-5M"):
    wanted = (kernel, implementation, case)
    (found,) = [each for each in section.rows if (each.kernel, each.implementation, each.case) == wanted]
    return found


def test_a_value_is_held_against_the_lower_of_slope_and_peak(roofed):
    """add_mul_exp: 3 FLOP and 12 bytes an element, at 12.5 GFLOPS. DRAM's 31 GB/s allow a quarter of 31."""
    section, _, _ = roofed
    found = row(section)
    assert (found.intensity, found.attainable, found.bound) == ("0.250 FLOP/B", "7.75 GFLOPS", "memory")
    assert (found.efficiency, found.level) == ("100.0%", "DRAM")
    assert found.detail == "1.62x the roof"
    compute = row(section, "matmul", "native", "float32-512x512x512")
    assert (compute.bound, compute.attainable) == ("compute", "90.0 GFLOPS")
    assert compute.efficiency.startswith("13.")


def test_warnings_are_footnotes_that_rows_share(tree):
    machine_records.add_ceilings(tree, 0, peak_float32=1e9)
    (section,) = rooflines(tree)[0]
    marked = {each.marks for each in section.rows if each.marks}
    assert len(section.footnotes) == 1 and marked == {(1,)}
    assert section.footnotes[0].startswith("more than the peak, which no cache explains")
    assert any(each.detail.endswith("x the roof") for each in section.rows)


def test_the_data_place_a_value_at_any_commit(roofed):
    _, data, commits = roofed
    entries = {(each["benchmark"], each["implementation"], each["case"]): each for each in data["series"]}
    entry = entries["matmul.Cpu.time_hot", "native", "float32-512x512x512"]
    assert entry["least"] == pytest.approx(2 * 512**3 / 90e9)
    assert entry["commit"] == commits[-1]
    assert entry["commits"] == 5
    assert entry["flop"] / entry["seconds"] / 1e9 == pytest.approx(12.5, rel=0.01)


def test_without_ceilings_the_points_stand_alone_and_it_says_how_to_get_some(tree):
    (section,), files = rooflines(tree)
    text = rendered(page_of(roofline_page, tree))
    assert "kv peaks" in text and "make track" in text
    assert not section.has_roofs
    assert {each.efficiency for each in section.rows} == {"–"}
    assert {each["least"] for each in files[section.data]["series"]} == {None}


def test_what_is_not_known_is_left_out_of_the_plot_and_said(tree):
    machine_records.add_ceilings(tree, 0)
    benchmarks = tree.results / "benchmarks.json"
    data = json.loads(benchmarks.read_text())
    del data["add_mul_exp.Cpu.time_hot"]["bytes"]
    del data["matmul.Cpu.time_hot"]["flops"]
    benchmarks.write_text(json.dumps(data))
    (section,), files = rooflines(tree)
    found = row(section)
    assert (found.intensity, found.efficiency, found.achieved) == ("–", "–", "12.5 GFLOPS")
    assert roofline_page.NO_AMOUNT in section.footnotes
    copied = row(section, "matmul", "native", "float32-512x512x512")
    assert copied.achieved.endswith("GB/s") and copied.bound == "memory"
    assert all(each["flop"] is None or each["bytes"] is None for each in files[section.data]["series"])


def test_a_peak_that_was_not_measured_is_said(tree):
    machine_records.add_ceilings(tree, 0, peak_float32=None)
    (section,), _ = rooflines(tree)
    assert row(section, "matmul", "native", "float32-512x512x512").bound == "memory"
    assert "the peak in float32 is not known: only DRAM's bandwidth is a roof here" in section.footnotes


def test_a_cold_call_lies_in_memory(tree):
    machine_records.add_ceilings(tree, 0)
    for path in [tree.results / "benchmarks.json", *(tree.results / synthetic.MACHINE).glob("*-*.json")]:
        path.write_text(path.read_text().replace("matmul.Cpu.time_hot", "matmul.Cpu.time_cold"))
    for path in (tree.results / synthetic.MACHINE / "telemetry").glob("*.jsonl"):
        path.write_text(path.read_text().replace("matmul.Cpu.time_hot", "matmul.Cpu.time_cold"))
    assert row(rooflines(tree)[0][0], "matmul", "native", "float32-256x256x256").level == "DRAM"


def test_no_results_are_a_page_without_sections(tree):
    for path in (tree.results / synthetic.MACHINE).glob("*-*.json"):
        path.unlink()
    sections, files = rooflines(tree)
    assert sections == [] and files == {}


# ---- records ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("environment", ["host-py3.11-torch2.13.0+cpu", "e" * 127, "e" * 128, "\N{ROCKET}" * 200])
def test_files_are_named_as_asv_names_them(environment):
    from asv.results import get_filename

    assert get_filename("m", "c" * 40, environment) == f"m/{lines.stem('c' * 40, environment)}.json"


def test_sessions_of_a_place_in_their_order(tree):
    for index in (2, 0):
        machine_records.add_session(tree, index, governor=f"g{index}")
    found = read(tree)
    (place,) = found.places
    assert [(sha, each.facts["governor"]) for sha, each in found.sessions(place)] == [
        (tree.commits[0], "g0"),
        (tree.commits[2], "g2"),
    ]


def test_rounds_of_a_commit_are_those_of_its_telemetry(tree):
    found = read(tree)
    (place,) = found.places
    rounds = found.rounds_at(place, tree.commits[1])
    assert len(rounds) == 8  # two benchmarks, two cases, two implementations
    assert {len(each) for each in rounds.values()} == {8}
    assert found.rounds_at(place, "f" * 40) == {}


def test_ceilings_and_roofs_of_a_place(tree):
    machine_records.add_ceilings(tree, 1)
    machine_records.add_ceilings(tree, 0, peak_float32=80e9)
    found = read(tree)
    (place,) = found.places
    assert [each.commit for each in found.ceilings(place, "Cpu")] == list(tree.commits[:2])
    assert found.ceilings(place, "Cuda") == ()
    assert found.roofs(place, "Cpu").peaks["float32"] == pytest.approx(87.5e9)
    assert found.roofs(place, "Cuda") is None


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, "x", True, None])
def test_a_ceiling_that_is_no_rate_was_not_measured(tree, value):
    machine_records.add_ceilings(tree, 0, dram_copy_bandwidth=20e9, dram_read_bandwidth=value, peak_float64=value)
    found = read(tree)
    roofs = found.roofs(found.places[0], "Cpu")
    assert roofs.levels[-1].bandwidth == 26e9  # of the triad
    assert roofs.peaks["float64"] is None


@pytest.mark.parametrize("began", ["x", math.inf, math.nan, [1], None])
def test_ceilings_of_no_known_time_are_passed_over(tree, began):
    machine_records.add_ceilings(tree, 0)
    path = results_file(tree, 0)
    data = json.loads(path.read_text())
    for name, stored in data["results"].items():
        if name.startswith("device."):
            stored[3] = began
    path.write_text(json.dumps(data))
    found = read(tree)
    assert found.ceilings(found.places[0], "Cpu") == ()


def test_roofs_leave_out_another_device_of_the_same_name(tree):
    machine_records.add_ceilings(tree, 0, device_id=1, peak_float32=900e9)
    machine_records.add_ceilings(tree, 1, device_id=2, peak_float32=90e9)
    found = read(tree)
    assert found.roofs(found.places[0], "Cpu").peaks["float32"] == 90e9


def test_without_gauges_nothing_was_fitted(tree):
    found = read(tree)
    assert [found.past.adjustments.fits.get(key) for key in found.keys if key.implementation == "eager"] == [None] * 4
    assert synthetic.MACHINE in {key.machine for key in found.keys}
