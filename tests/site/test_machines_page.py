"""The page of the machines: what it says of real, doubtful and missing records."""

import dataclasses
import json
from pathlib import Path

import pytest

from kernel_velocity.site import model
from kernel_velocity.site.outputs import DataFile, Page
from kernel_velocity.site.pages import machines
from tests import synthetic
from tests.golden import check_golden
from tests.site import machine_records

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def tree(copied):
    """Quicker than a fresh one: nothing here changes the repository."""
    return copied


def made(tree):
    """Return the sections of the page, and its data."""
    page, data = machines.build(model.read(tree.results, tree.repository))
    assert isinstance(page, Page) and isinstance(data, DataFile)
    return page.context["machines"], data.value


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


def test_golden(whole, accept):
    text = json.dumps(dataclasses.asdict(whole[0]), indent=1, ensure_ascii=False) + "\n"
    check_golden(GOLDEN / "machines.json", text, accept=accept)


def ceiling(machine, title):
    (found,) = (each for each in machine.devices[0].ceilings if each.title == title)
    return found


def test_a_ceiling_that_moved_by_over_five_percent_is_named(whole):
    machine, _, _ = whole
    peak = ceiling(machine, "peak float32")
    assert (peak.moved, peak.change, peak.newest) == ("moved", "-11.6%", "80.0 GFLOPS")
    assert (peak.roof, peak.why) == ("90.5 GFLOPS", "upper quartile of 3 sessions")
    assert [marked for _, _, marked in peak.chart.dots] == [False, False, True]
    assert ceiling(machine, "L2 bandwidth").moved == ""
    rows = machine.devices[0].rows
    column = machine.devices[0].titles.index("peak float32")
    assert [row.cells[column] for row in rows] == [
        ("80.0 GFLOPS", True),
        ("91.0 GFLOPS", False),
        ("90.0 GFLOPS", False),
    ]


def test_a_fact_that_changed_is_told_with_its_commit(whole):
    machine, _, commits = whole
    (change,) = machine.changes
    assert (change.name, change.before, change.after) == ("governor", "performance", "powersave")
    assert change.href == f"commit-{commits[1][:8]}.html"
    assert change.when == "2026-01-01 00:16 UTC"


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
    text = machine_records.rendered(machines, tree)
    assert "kv peaks" in text and "make track" in text


def test_of_one_session_there_is_nothing_to_compare_and_no_chart_to_explain(tree):
    for index in (1, 2):
        text = machine_records.rendered(machines, tree)
        assert ("Measured once" in text) == (index == 2)
        for said in ("over the sessions", "the only session", "Each chart shows a session"):
            assert said not in text
        machine_records.add_ceilings(tree, index)
    text = machine_records.rendered(machines, tree)
    assert "over the sessions" in text and "Each chart shows a session" in text and "2 sessions" in text


def test_peaks_of_the_machine_that_makes_the_page_count(tmp_path, monkeypatch):
    from kernel_velocity.roofline import ceilings
    from tests.harness.test_device_figures import a_machine, document

    tree = synthetic.build(tmp_path)
    monkeypatch.delenv("KV_THREADS", raising=False)
    ceilings.keep(tree.repository, document(a_machine()))
    assert section(tree).devices == ()
    monkeypatch.setenv("KV_MACHINE", synthetic.MACHINE)
    machine = section(tree)
    assert machine.devices[0].rows[0].commit == ""
    peak = ceiling(machine, "peak float32")
    assert (peak.why, peak.chart) == ("the only session", None)


def test_two_devices_under_one_name_are_kept_apart_and_named(tree):
    add_sessions(tree)
    machine_records.add_ceilings(tree, 3, device_id=7, peak_float32=10e9)
    found = section(tree)
    assert any("3 sessions measured the ceilings of another Cpu under this name" in text for text in found.remarks)
    assert ceiling(found, "peak float32").roof == "10.0 GFLOPS"


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
    assert second.environments == ()
    synthetic.write_json(tree.results / "bench-new" / "machine.json", {**described, "cpu": "X", "machine": "bench-new"})
    assert not any("same hardware" in text for text in made(tree)[0][0].remarks)


def test_many_sessions_are_listed_newest_first_up_to_a_limit(tree, monkeypatch):
    add_sessions(tree)
    monkeypatch.setattr(machines, "LISTED", 2)
    device = section(tree).devices[0]
    assert [row.commit for row in device.rows] == [sha[:8] for sha in tree.commits[2:0:-1]]
    assert device.further == "1 older session in data/machines.json"


@pytest.mark.parametrize("when", [1e300, -1e300])
def test_a_time_that_no_calendar_has(tree, when):
    machine_records.add_ceilings(tree, 0, began=when / 1000)
    assert section(tree).devices[0].rows[0].when == "at no known time"


def test_hostile_names_stay_text(tmp_path):
    script = "<script>window.pwned=1</script>"
    tree = synthetic.build(tmp_path, machine="<i>m")
    machine_records.add_session(tree, 0, machine="<i>m", governor=script)
    machine_records.add_session(tree, 1, machine="<i>m", governor="}}" + script)
    text = machine_records.rendered(machines, tree)
    assert "<i>" not in text and script not in text
    assert "&lt;script&gt;window.pwned=1" in text
