"""Reading a results directory: asv's own files, sound and malformed."""

import dataclasses
import json
import math

import pytest
from asv.results import Results
from asv.runner import BenchmarkResult
from asv_runner.benchmarks._base import _unique_param_ids

from kernel_velocity.errors import ResultsError
from kernel_velocity.past.packing import NO_TELEMETRY, measured
from kernel_velocity.results import reader
from kernel_velocity.results.measurement import Outcome
from tests import synthetic
from tests.past.one_by_one import measurements, recorded


@pytest.fixture
def machine(tree):
    return tree.results / synthetic.MACHINE


def file_of(tree, index=-1):
    return tree.results / synthetic.MACHINE / f"{tree.commits[index][:8]}-{synthetic.ENVIRONMENT}.json"


def newest(reading, tree):
    """Return what was read of the newest commit's file."""
    (file,) = [file for file in reading.files if file.commit == tree.commits[-1]]
    return file


def recorded_values(file):
    """Return the times of a results file as asv stores them, without telemetry."""
    bare = dataclasses.replace(file, rounds={}, failures={})
    return [measured(bare, at, *series)[0] for at, series in enumerate(bare.series())]


def edit(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def read(tree):
    return recorded(tree.results)


def the_note(tree):
    """Return the one note. Everything that it does not name must have been read all the same."""
    result = read(tree)
    (note,) = result.notes
    assert "\n" not in note
    return result, note


def test_sound_tree_has_no_notes(tree):
    result = read(tree)
    assert result.notes == ()
    assert len(result.files) == 5
    assert set(result.benchmarks) == set(synthetic.CASES)  # the track_ benchmark is none of ours
    assert result.machines[0].details[0] == ("cpu", "Imaginary 9000")
    assert result.benchmarks["matmul.Cpu.time_hot"].flop == {
        "float32-256x256x256": 2 * 256.0**3,
        "float32-512x512x512": 2 * 512.0**3,
    }


def test_file_written_by_asv_is_read(tree):
    """Written by asv's own code: a time, null (failed) and NaN (n/a) are three different things."""
    benchmark = {"name": "matmul.Cpu.time_hot", "version": "1", "params": [["'eager'"], ["'a'", "'b'", "'c'"]]}
    results = Results({"machine": "asv-made"}, {}, "f" * 40, 0, "3.11", "env", {})
    outcome = BenchmarkResult(
        result=[0.5, None, math.nan], samples=[[0.5, 0.4, 0.6] * 3, None, None], number=[1, None, None],
        errcode=0, stderr="", profile=None,
    )  # fmt: skip
    results.add_result(benchmark, outcome)
    results.save(str(tree.results))
    (result,) = [file for file in read(tree).files if file.machine == "asv-made"]
    values = recorded_values(result)
    assert [value.outcome for value in values] == [Outcome.MEASURED, Outcome.FAILED, Outcome.NOT_APPLICABLE]
    assert [value.key.case for value in values] == ["a", "b", "c"]
    assert values[0].seconds == 0.5
    assert values[0].interval.low <= 0.5 <= values[0].interval.high
    assert result.commit == "f" * 40


def test_infinite_bounds_are_no_interval(tree):
    def unbound(data):
        for row in data["results"].values():
            row[5] = [-math.inf] * len(row[0])

    edit(file_of(tree), unbound)
    values = recorded_values(newest(read(tree), tree))
    assert all(value.interval is None for value in values if value.outcome is Outcome.MEASURED)


def test_row_without_result_failed(tree):
    edit(file_of(tree), lambda data: data["results"].update({"matmul.Cpu.time_hot": [None, [["'eager'"], ["'c'"]]]}))
    values = [value for value in recorded_values(newest(read(tree), tree)) if value.key.case == "c"]
    assert [(value.key.benchmark, value.outcome) for value in values] == [("matmul.Cpu.time_hot", Outcome.FAILED)]


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
def test_malformed_results_file_is_noted(tree, text, complaint):
    file_of(tree).write_text(text)
    result, note = the_note(tree)
    assert complaint in note
    assert file_of(tree).name in note
    assert len(result.files) == 4


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ([[1.0], [["'eager'"], ["'a'", "'b'"]], "1"], "a list of 2, one for each combination"),
        ([["fast"], [["'eager'"], ["'a'"]], "1"], "s, null or NaN is wanted, got 'fast'"),
        ([[-1.0], [["'eager'"], ["'a'"]], "1"], "a time from 1e-12 to 1e+11 s, null or NaN is wanted, got '-1.0'"),
        ([[0], [["'eager'"], ["'a'"]], "1"], "a time from 1e-12 to 1e+11 s, null or NaN is wanted, got '0'"),
        ([[True], [["'eager'"], ["'a'"]], "1"], "null or NaN is wanted, got 'True'"),
        ([[1.0], ["eager"], "1"], "params: a list of axes is wanted"),
        ([[1.0, 2.0], [["'a'", "'a'"]], "1"], "params: a name for each combination is wanted"),
        (7, "row: a list is wanted"),
        (None, "row: a list is wanted"),
    ],
)
def test_malformed_row_is_noted(tree, row, complaint):
    edit(file_of(tree), lambda data: data["results"].update({"matmul.Cpu.time_hot": row}))
    result, note = the_note(tree)
    assert complaint in note
    assert "matmul.Cpu.time_hot" in note
    assert {row.benchmark for row in newest(result, tree).rows} | {"matmul.Cpu.time_hot"} == set(synthetic.CASES)
    assert len(result.files) == 5


@pytest.mark.parametrize("name", ["x\0y", "x\ud800y"])
def test_name_that_no_file_can_have_is_noted(tree, name):
    wanted, before = "name: a text without NUL and halves of surrogate pairs is wanted", newest(read(tree), tree).rows
    edit(file_of(tree), lambda data: data["results"].update({f"{name}.Cpu.time_hot": [[1.0], [["'eager'"], ["'a'"]]]}))
    result, note = the_note(tree)
    assert wanted in note and newest(result, tree).rows == before


def test_missing_machine_json_is_noted(tree, machine):
    (machine / "machine.json").unlink()
    result, note = the_note(tree)
    assert note.startswith("bench-1/machine.json: no such file")
    assert result.machines[0].name == synthetic.MACHINE
    assert len(result.files) == 5


@pytest.mark.parametrize(("text", "complaint"), [(None, "No such file"), ("{", "Expecting"), ('{"version": 9}', "9")])
def test_times_are_read_without_benchmarks_json(tree, text, complaint):
    path = tree.results / "benchmarks.json"
    path.unlink() if text is None else path.write_text(text)
    result, note = the_note(tree)
    assert complaint in note
    assert "GFLOPS need it" in note
    assert result.benchmarks is None
    entries, notes = measurements(result)
    assert notes == ()
    assert len(entries) == 60
    assert all(measurement.gflops is None for measurement in entries)


@pytest.mark.parametrize(
    "entry", ["text", {"type": "time"}, {"type": "time", "params": [["'a'"], ["'b'"]], "flops": {"b": -1}}]
)
def test_malformed_benchmark_is_noted(tree, entry):
    edit(tree.results / "benchmarks.json", lambda data: data.update({"other.Cpu.time_hot": entry}))
    result, note = the_note(tree)
    assert note.startswith("benchmarks.json, other.Cpu.time_hot:")
    assert set(result.benchmarks) == set(synthetic.CASES)


def test_malformed_telemetry_line_is_noted_with_its_number(tree, machine):
    path = machine / "telemetry" / f"{file_of(tree).stem}.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{nonsense", *lines[1:]]) + "\n")
    result, note = the_note(tree)
    assert note.startswith(f"bench-1/telemetry/{path.name}:2: not JSON")
    assert sum(len(rounds) for rounds in newest(result, tree).rounds.values()) == len(lines)


def test_duplicate_line_is_one_round(tree, machine):
    path = machine / "telemetry" / f"{file_of(tree).stem}.jsonl"
    path.write_text(path.read_text() * 2)
    assert {len(rounds) for rounds in newest(read(tree), tree).rounds.values()} == {8}


def test_failures_are_read_with_their_reason(tree, machine):
    path = machine / "telemetry" / f"{file_of(tree, 3).stem}.failures.jsonl"
    series = {"b": "matmul.Cpu.time_hot", "p": ["triton", "float32-256x256x256"]}
    lines = [series | {"t": 2.0, "error": "RuntimeError: later"}, series | {"t": 1.0, "error": "RuntimeError: sooner"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "nonsense\n")
    result, note = the_note(tree)
    assert f"{path.name}:3: not JSON" in note
    entries, _ = measurements(result)
    (measurement,) = [value for value in entries if value.reason is not None]
    assert (measurement.outcome, measurement.reason) == (Outcome.FAILED, "RuntimeError: later")


@pytest.mark.parametrize("text", ["", "{}", "[]", "{", '{"version": 1}'])
def test_malformed_machine_json_is_noted(tree, machine, text):
    (machine / "machine.json").write_text(text)
    result, note = the_note(tree)
    assert note.startswith("bench-1/machine.json: ")
    assert len(result.files) == 5


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_missing_results_directory_is_an_error(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="no such directory, asv's results_dir is wanted: run `kv track`"):
        recorded(tmp_path / name)


def test_other_folders_are_no_machines(tree):
    synthetic.write_json(tree.results / "scratch" / "notes.txt", {})
    synthetic.write_json(tree.results / ".hidden" / "machine.json", {})
    result = read(tree)
    assert (len(result.machines), result.notes) == (1, ())


def test_value_without_telemetry_is_asvs(tree, machine):
    for path in (machine / "telemetry").iterdir():
        path.unlink()
    entries, _ = measurements(read(tree))
    measured = [measurement for measurement in entries if measurement.outcome is Outcome.MEASURED]
    assert measured
    assert all(measurement.warnings == (NO_TELEMETRY,) and measurement.interval is not None for measurement in measured)


@pytest.mark.parametrize(
    ("name", "params", "cases"),
    [
        ("io.Csv.time_read", [], [""]),
        ("io.time_read", [["10", "'10'", "0.5"]], ["10", "'10'", "0.5"]),
        ("io.Csv.peakmem_read", [["1", "2"], ["'a'"], ["None"]], ["1, a, None", "2, a, None"]),
        ("bench.Cpu.track_loss", [["'x'", "'y'"]], ["x", "y"]),
        ("any name, with commas", [["'x'"], ["'y'"]], ["x, y"]),
    ],
)
def test_benchmark_of_another_suite_has_its_parameters_as_case(tmp_path, name, params, cases):
    values = [1.5, None, -2.0][: len(cases)] if "time" not in name else [1.5, None, math.nan][: len(cases)]
    data = synthetic.results_json("f" * 40, "m", {name: [values, params, "1"]})
    synthetic.write_json(tmp_path / "m" / f"ffffffff-{synthetic.ENVIRONMENT}.json", data)
    notes = []
    file = reader.read_file(tmp_path / "m" / f"ffffffff-{synthetic.ENVIRONMENT}.json", notes)
    assert notes == []
    assert [pair for _, pair in file.series()] == [("", case) for case in cases]
    assert file.seconds[0] == 1.5


def test_parameter_from_its_repr():
    assert [reader.parameter(repr(text)) for text in ("a\0", "a\udc80")] == [r"'a\x00'", r"'a\udc80'"]  # no name
    assert [reader.parameter(text) for text in ("'native'", "3", "'a\\'b'", "<object>")] == [
        "native", "3", "a'b", "<object>",
    ]  # fmt: skip


def read_one(folder, row=(), telemetry=(), **changed):
    """Return what is read of a results file of one value, and the notes. `row`: fields of its benchmark's row."""
    named = {
        "result": [1e-3], "params": [["'eager'"], ["'c'"]], "version": "1", "started_at": 1.7e12, "duration": 1.0,
        "stats_ci_99_a": [9e-4], "stats_ci_99_b": [2e-3],
    } | dict(row)  # fmt: skip
    data = synthetic.results_json("f" * 40, "m", {"matmul.Cpu.time_hot": list(named.values())}) | changed
    path = folder / "m" / f"ffffffff-{synthetic.ENVIRONMENT}.json"
    synthetic.write_json(path, data)
    synthetic.write_json(folder / "m" / "telemetry" / f"ffffffff-{synthetic.ENVIRONMENT}.jsonl", dict(telemetry))
    notes = []
    return reader.read_file(path, notes), [note for note in notes if telemetry or "jsonl" not in note]


HUGE = 10**400  # an integer for JSON, and for no float


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"version": 1}, "version: a text is wanted, got '1'"),
        ({"version": [1]}, "version: a text is wanted, got '[1]'"),
        *(({"result": [value]}, "a time from 1e-12 to 1e+11 s") for value in (HUGE, 1e308, 5e-324, math.inf)),
    ],
)
def test_row_out_of_bounds_is_left_out(tmp_path, row, complaint):
    result, (note,) = read_one(tmp_path, row)
    assert result.rows == () and complaint in note


@pytest.mark.parametrize(
    ("row", "lost"),
    [
        *(({"started_at": value}, "began") for value in (HUGE, 1e300, math.inf, math.nan, -1.0, "noon")),
        *(({"stats_ci_99_b": [value]}, "interval") for value in (HUGE, 1e308, math.inf, math.nan)),
    ],
)
def test_field_out_of_bounds_is_unknown(tmp_path, row, lost):
    def present(file):
        (value,), (only,) = recorded_values(file), file.rows
        return {
            "interval": value.interval,
            "began": None if math.isnan(only.began) else only.began,
            "seconds": value.seconds,
        }

    plain, (actual, notes) = present(read_one(tmp_path)[0]), read_one(tmp_path, row)
    assert plain[lost] is not None
    assert (present(actual), notes) == (plain | {lost: None}, [])


def test_columns_without_names_are_noted(tmp_path):
    result, (note,) = read_one(tmp_path, result_columns=[{}])
    assert result is None and "result_columns: a list of names is wanted" in note


def test_deeply_nested_file_is_noted(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "deep.json").write_text("[" * 100_000)
    notes = []
    assert reader.read_file(tmp_path / "m" / "deep.json", notes) is None
    assert "recursion" in notes[0]


@pytest.mark.parametrize("amount", [HUGE, 1e308, math.inf, math.nan, 0, True])
def test_work_out_of_bounds_is_noted(tmp_path, amount):
    entry = {"type": "time", "params": [["'a'"], ["'b'"]], "flops": {"b": amount}}
    synthetic.write_json(tmp_path / "benchmarks.json", {"version": 2, "x.Cpu.time_hot": entry})
    notes = []
    assert reader.read_benchmarks(tmp_path / "benchmarks.json", notes) == {}
    assert "flops of b: a positive number up to 1e+24 is wanted" in notes[0]


@pytest.mark.parametrize(
    "change",
    [
        *({"t": value} for value in (1e300, HUGE, -1.0)),
        *({"e": value} for value in (1e308, 1e-300)),
        *({"n": HUGE}, {"s": 1e300}, {"j": 0.0}, {"v": [HUGE, *[None] * 6]}),
    ],
)
def test_round_out_of_bounds_is_left_out(tmp_path, change):
    round_ = {"b": "matmul.Cpu.time_hot", "p": ["eager", "c"], "t": 1.7e9, "e": 1e-3, "n": 9, "k": 1, "s": 1.0}
    round_ |= {"r": "converged", "m": "a1b2", "l": "launch", "j": 1e-4}
    result, notes = read_one(tmp_path, telemetry=round_)
    assert (len(result.rounds), notes) == (1, [])
    result, (note,) = read_one(tmp_path, telemetry=round_ | change)
    assert result.rounds == {} and "wanted, got" in note


@pytest.mark.parametrize(("row", "complaint"), [(7, "row: a list is wanted"), ([["x"], [], "1"], "null or NaN")])
def test_malformed_ceiling_is_noted(tmp_path, row, complaint):
    data = synthetic.results_json("f" * 40, "m", {"device.Cpu.track_threads": row})
    synthetic.write_json(tmp_path / "m" / f"ffffffff-{synthetic.ENVIRONMENT}.json", data)
    notes = []
    assert reader.read_file(tmp_path / "m" / f"ffffffff-{synthetic.ENVIRONMENT}.json", notes).tracked == ()
    assert f"device.Cpu.track_threads: {'' if row == 7 else 'result: a number, '}{complaint}" in notes[0]


# What is shown where there are rounds or failures ---------------------------------------------------------------------

FIRST_ROUND = 1767225600.0 + 4000  # of the newest commit
MATMUL = "matmul.Cpu.time_hot"


def of_native(tree):
    """Return what the newest commit measured of native matmul's first case."""
    wanted = (tree.commits[-1], MATMUL, "native", "float32-256x256x256")
    (value,) = [
        value
        for value in measurements(read(tree))[0]
        if (value.commit, value.key.benchmark, value.key.implementation, value.key.case) == wanted
    ]
    return value


def write_failures(tree, *lines):
    path = file_of(tree).parent / "telemetry" / f"{file_of(tree).stem}.failures.jsonl"
    series = {"b": MATMUL, "p": ["native", "float32-256x256x256"]}
    path.write_text("".join(json.dumps(series | line) + "\n" for line in lines))


def test_round_that_raised_removes_the_time(tree):
    failures = [{"t": FIRST_ROUND + 3.5, "error": "wrong by 3"}, {"t": FIRST_ROUND + 9, "error": "crash", "died": True}]
    write_failures(tree, *failures)
    measurement = of_native(tree)
    assert (measurement.outcome, measurement.seconds, measurement.interval) == (Outcome.FAILED, None, None)
    assert measurement.reason == "wrong by 3"
    assert measurement.warnings == ("8 rounds timed before it failed",)
    write_failures(tree, {"t": FIRST_ROUND - 60, "error": "wrong by 3"})  # of an earlier measurement
    assert of_native(tree).outcome is Outcome.MEASURED


def test_crashed_rounds_are_counted_in_a_footnote(tree):
    times = (FIRST_ROUND + 2.5, FIRST_ROUND + 5.5)
    write_failures(tree, *({"t": time, "error": f"crash at {time:.1f}", "died": True} for time in times))
    measurement = of_native(tree)
    assert measurement.outcome is Outcome.MEASURED
    assert measurement.warnings == (
        f"2 further rounds lost to a crash or a timeout, the last with: crash at {times[1]:.1f}",
    )


@pytest.mark.parametrize("asvs", [1e-3, 9e9, None])
def test_rounds_are_the_record_whatever_asv_stores(tree, asvs):
    def overwrite(data):
        data["results"][MATMUL][0] = [value and asvs for value in data["results"][MATMUL][0]]

    before = of_native(tree)
    edit(file_of(tree), overwrite)
    assert read(tree).notes == () and of_native(tree) == before


def test_a_value_that_asv_stores_as_not_applicable_has_no_time(tree):
    edit(file_of(tree), lambda data: data["results"][MATMUL].__setitem__(0, [math.nan] * 6))
    assert of_native(tree).outcome is Outcome.NOT_APPLICABLE


def test_rounds_that_telemetry_lost_are_noted(tree, machine):
    synthetic.count_rounds(file_of(tree))
    assert read(tree).notes == ()
    path = machine / "telemetry" / f"{file_of(tree).stem}.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    _, note = the_note(tree)
    assert "rounds that its telemetry lacks, got 7 of 8 for" in note


@pytest.mark.parametrize(
    ("axis", "names"),
    [
        (["<function relu at 0x7f00aa>", "<function gelu at 0x7F00AB>"], ["<function relu>", "<function gelu>"]),
        (["<f at 0x1>", "'a'", "<f at 0x2>", "<f>"], ["<f> (0)", "'a'", "<f> (1)", "<f> (2)"]),  # as asv numbers them
        (["'<f at 0x1>'", "(<f at 0x1>, 2)", "a at 0x1"], ["'<f at 0x1>'", "(<f at 0x1>, 2)", "a at 0x1"]),
        (["1", "1"], ["1", "1"]),
    ],
)
def test_addresses_are_cut_as_asv_cuts_them(axis, names):
    assert reader.without_addresses(tuple(axis)) == tuple(names)


def test_objects_of_asv_have_the_names_of_the_recorded_ones():
    def relu():
        pass

    objects = [relu, lambda: 0, lambda: 1, object(), "<f at 0x1>", (1, 2)]
    recorded = tuple(map(repr, objects))
    assert list(reader.without_addresses(recorded)) == _unique_param_ids([objects])[0]
