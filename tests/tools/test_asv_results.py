"""Reading a results directory: asv's own files, and every way in which one can be damaged."""

import json
import math

import pytest
from asv.results import Results
from asv.runner import BenchmarkResult

from tests.tools import synthetic
from tools import asv_results, recorded
from tools.errors import ResultsError
from tools.measurements import Outcome
from tools.recorded import NO_TELEMETRY


@pytest.fixture
def machine(tree):
    return tree.results / synthetic.MACHINE


def file_of(tree, index=-1):
    return tree.results / synthetic.MACHINE / f"{tree.commits[index][:8]}-{synthetic.ENVIRONMENT}.json"


def newest(found, tree):
    """Return what was read of the newest commit's file."""
    (file,) = [file for file in found.files if file.commit == tree.commits[-1]]
    return file


def edit(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def read(tree):
    return asv_results.read(tree.results)


def the_note(tree):
    """Return the one note; everything that it does not name must have been read all the same."""
    found = read(tree)
    (note,) = found.notes
    assert "\n" not in note
    return found, note


def test_a_sound_tree_has_no_notes(tree):
    found = read(tree)
    assert found.notes == ()
    assert len(found.files) == 5
    assert set(found.benchmarks) == set(synthetic.CASES)  # the track_ benchmark is none of ours
    assert found.machines[0].details[0] == ("cpu", "Imaginary 9000")
    assert found.benchmarks["matmul.Cpu.time_hot"].flop == {
        "float32-256x256x256": 2 * 256.0**3,
        "float32-512x512x512": 2 * 512.0**3,
    }


def test_a_file_that_asv_wrote_is_understood(tree):
    """Written by asv's own code: a time, null (failed) and NaN (n/a) are three different things."""
    benchmark = {"name": "matmul.Cpu.time_hot", "version": "1", "params": [["'eager'"], ["'a'", "'b'", "'c'"]]}
    results = Results({"machine": "asv-made"}, {}, "f" * 40, 0, "3.11", "env", {})
    outcome = BenchmarkResult(
        result=[0.5, None, math.nan], samples=[[0.5, 0.4, 0.6] * 3, None, None], number=[1, None, None],
        errcode=0, stderr="", profile=None,
    )  # fmt: skip
    results.add_result(benchmark, outcome)
    results.save(str(tree.results))
    (found,) = [file for file in read(tree).files if file.machine == "asv-made"]
    assert [value.outcome for value in found.values] == [Outcome.MEASURED, Outcome.FAILED, Outcome.NOT_APPLICABLE]
    assert [value.case for value in found.values] == ["a", "b", "c"]
    assert found.values[0].seconds == 0.5
    assert found.values[0].interval.low <= 0.5 <= found.values[0].interval.high
    assert found.commit == "f" * 40


def test_what_asv_could_not_bound_has_no_interval(tree):
    def unbound(data):
        for row in data["results"].values():
            row[5] = [-math.inf] * len(row[0])

    edit(file_of(tree), unbound)
    assert all(value.interval is None for value in newest(read(tree), tree).values if value.outcome is Outcome.MEASURED)


def test_a_row_without_result_failed_everywhere(tree):
    edit(file_of(tree), lambda data: data["results"].update({"matmul.Cpu.time_hot": [None, [["'eager'"], ["'c'"]]]}))
    found = {value.benchmark: value for file in read(tree).files for value in file.values if value.case == "c"}
    assert found["matmul.Cpu.time_hot"].outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty file"),
        ('{"version": 2, "results": {', "Expecting"),
        ("[]", "an object is wanted"),
        ('{"version": 3}', "results version 3 is unknown, 2 is wanted: try `asv update`"),
        ('{"version": 2}', "result_columns: a list is wanted"),
        ('{"version": 2, "result_columns": [], "results": [], "commit_hash": "a"}', "results: a dict is wanted"),
        (
            '{"version": 2, "result_columns": [], "results": {}, "commit_hash": "HEAD", "env_name": "e"}',
            "a commit's full hash is wanted, got 'HEAD'",
        ),
    ],
)
def test_a_results_file_that_is_none_is_named_and_the_others_are_read(tree, text, complaint):
    file_of(tree).write_text(text)
    found, note = the_note(tree)
    assert complaint in note
    assert file_of(tree).name in note
    assert len(found.files) == 4


def test_a_results_file_that_is_not_text(tree):
    file_of(tree).write_bytes(b"\xff\xfe\x00")
    assert "utf-8" in the_note(tree)[1]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ([[1.0], [["'eager'"], ["'a'", "'b'"]], "1"], "a list of 2, one for each combination"),
        ([["fast"], [["'eager'"], ["'a'"]], "1"], "a number, null or NaN is wanted, got 'fast'"),
        ([[-1.0], [["'eager'"], ["'a'"]], "1"], "a positive time is wanted, got '-1.0'"),
        ([[0], [["'eager'"], ["'a'"]], "1"], "a positive time is wanted, got '0'"),
        ([[True], [["'eager'"], ["'a'"]], "1"], "a number, null or NaN"),
        ([[10**400], [["'eager'"], ["'a'"]], "1"], "a number of more than 300 digits is no time"),
        ([[1.0], [["'eager'"]], "1"], "the two axes (implementation, case)"),
        (7, "params: a list is wanted"),
    ],
)
def test_a_damaged_row_is_named_and_the_others_are_read(tree, row, complaint):
    edit(file_of(tree), lambda data: data["results"].update({"matmul.Cpu.time_hot": row}))
    found, note = the_note(tree)
    assert complaint in note
    assert "matmul.Cpu.time_hot" in note
    assert {value.benchmark for value in newest(found, tree).values} | {"matmul.Cpu.time_hot"} == set(synthetic.CASES)
    assert len(found.files) == 5


def test_a_machine_without_description_is_shown_and_named(tree, machine):
    (machine / "machine.json").unlink()
    found, note = the_note(tree)
    assert note.startswith("bench-1/machine.json: no such file")
    assert found.machines[0].name == synthetic.MACHINE
    assert len(found.files) == 5


@pytest.mark.parametrize(("text", "complaint"), [(None, "No such file"), ("{", "Expecting"), ('{"version": 9}', "9")])
def test_without_benchmarks_json_times_are_still_read(tree, text, complaint):
    path = tree.results / "benchmarks.json"
    path.unlink() if text is None else path.write_text(text)
    found, note = the_note(tree)
    assert complaint in note
    assert "GFLOPS need it" in note
    assert found.benchmarks is None
    items, notes = recorded.measurements(found)
    assert notes == ()
    assert len(items) == 60
    assert all(item.gflops is None for item in items)


@pytest.mark.parametrize(
    "entry", ["text", {"type": "time"}, {"type": "time", "params": [["'a'"], ["'b'"]], "flops": {"b": -1}}]
)
def test_a_damaged_benchmark_is_named(tree, entry):
    edit(tree.results / "benchmarks.json", lambda data: data.update({"other.Cpu.time_hot": entry}))
    found, note = the_note(tree)
    assert note.startswith("benchmarks.json: other.Cpu.time_hot:")
    assert set(found.benchmarks) == set(synthetic.CASES)


def test_a_malformed_telemetry_line_is_named_with_its_number(tree, machine):
    path = machine / "telemetry" / f"{file_of(tree).stem}.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{nonsense", *lines[1:]]) + "\n")
    found, note = the_note(tree)
    assert note.startswith(f"bench-1/telemetry/{path.name}:2: not JSON")
    assert sum(len(rounds) for rounds in newest(found, tree).rounds.values()) == len(lines)


@pytest.mark.parametrize("change", [{"e": -1.0}, {"e": None}, {"p": ["native"]}, {"p": "native"}])
def test_a_telemetry_line_that_says_something_else_is_named(tree, machine, change):
    path = machine / "telemetry" / f"{file_of(tree).stem}.jsonl"
    line = json.loads(path.read_text().splitlines()[0])
    with path.open("a") as stream:
        stream.write(json.dumps(line | change) + "\n")
    assert "wanted" in the_note(tree)[1]


def test_a_line_that_was_moved_twice_is_one_round(tree, machine):
    path = machine / "telemetry" / f"{file_of(tree).stem}.jsonl"
    path.write_text(path.read_text() * 2)
    assert {len(rounds) for rounds in newest(read(tree), tree).rounds.values()} == {8}


def test_failures_are_read_with_their_reason(tree, machine):
    path = machine / "telemetry" / f"{file_of(tree, 3).stem}.failures.jsonl"
    place = {"b": "matmul.Cpu.time_hot", "p": ["triton", "float32-256x256x256"]}
    lines = [place | {"t": 2.0, "error": "RuntimeError: later"}, place | {"t": 1.0, "error": "RuntimeError: sooner"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "nonsense\n")
    found, note = the_note(tree)
    assert f"{path.name}:3: not JSON" in note
    items, _ = recorded.measurements(found)
    (item,) = [item for item in items if item.reason is not None]
    assert (item.outcome, item.reason) == (Outcome.FAILED, "RuntimeError: later")


@pytest.mark.parametrize("text", ["", "{}", "[]", "{", '{"version": 1}'])
def test_a_damaged_description_of_a_machine_is_named(tree, machine, text):
    (machine / "machine.json").write_text(text)
    found, note = the_note(tree)
    assert note.startswith("bench-1/machine.json: ")
    assert len(found.files) == 5


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_a_results_directory_that_is_none_is_an_error(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="no such directory, asv's results_dir is wanted: run `make track`"):
        asv_results.read(tmp_path / name)


def test_folders_of_other_origin_are_not_machines(tree):
    synthetic.write_json(tree.results / "scratch" / "notes.txt", {})
    synthetic.write_json(tree.results / ".hidden" / "machine.json", {})
    found = read(tree)
    assert (len(found.machines), found.notes) == (1, ())


def test_without_telemetry_asvs_value_counts_and_says_so(tree, machine):
    for path in (machine / "telemetry").iterdir():
        path.unlink()
    items, _ = recorded.measurements(read(tree))
    measured = [item for item in items if item.outcome is Outcome.MEASURED]
    assert measured
    assert all(item.warnings == (NO_TELEMETRY,) and item.interval is not None for item in measured)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: data.pop("matmul.Cpu.time_hot"), "is no longer in benchmarks.json (30 values kept, not shown)"),
        (lambda data: data["matmul.Cpu.time_hot"].update(version="2"), "was recorded as version 1, now it is 2"),
    ],
)
def test_values_without_a_place_are_kept_and_named(tree, change, complaint):
    edit(tree.results / "benchmarks.json", change)
    items, (note,) = recorded.measurements(read(tree))
    assert note.startswith("matmul.Cpu.time_hot ")
    assert complaint in note
    assert {item.key.benchmark for item in items} == {"add_mul_exp.Cpu.time_hot"}


def test_a_name_that_is_no_series_name_cannot_become_a_path(tree):
    row = [[1.0], [["'eager'"], ["'a'"]], "1"]
    edit(file_of(tree), lambda data: data["results"].update({"../../x.Cpu.time_hot": row}))
    _, (note,) = recorded.measurements(read(tree))
    assert "is not named <kernel>.<Cpu|Cuda>.time_<state> (1 value kept, not shown)" in note


def test_two_files_of_one_commit_are_not_added_up(tree):
    path = file_of(tree)
    path.with_name(path.stem + "-copy.json").write_text(path.read_text())
    items, notes = recorded.measurements(read(tree))
    assert len(items) == 60
    assert all("stands in two files" in note for note in notes)


def test_parameters_are_read_from_their_repr():
    assert [asv_results.parameter(text) for text in ("'native'", "3", "'a\\'b'", "<object>")] == [
        "native", "3", "a'b", "<object>",
    ]  # fmt: skip
