"""Ingest: every line ends in its place exactly once, whatever interrupts it."""

import fcntl
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernel_velocity import lock
from kernel_velocity.engine import telemetry
from kernel_velocity.engine.spool import SpoolError, append_line, spool_path
from kernel_velocity.results import asv_file, ingest, lines, sessions
from kernel_velocity.results.sessions import SessionFacts
from tests.commands import kv
from tests.results.spooled import (
    COLUMNS,
    COMMIT,
    ENVIRONMENT,
    NAME,
    at,
    estimates,
    fail,
    spool,
    stored_lines,
    stored_values,
    waiting,
    write_result,
)


def test_a_second_ingest_changes_nothing(tmp_path):
    write_result(tmp_path, [2.0, 1.5], [[2.0], [1.0, 2.0]])
    spool(tmp_path, at(1.0, 1.0), at(2.0, 2.0))
    ingest.ingest(tmp_path, now=10.0)
    before = stored_lines(tmp_path)
    spool(tmp_path, at(1.0, 1.0))  # a line that was moved already, as an interruption leaves it
    ingest.ingest(tmp_path, now=10.0)
    assert stored_lines(tmp_path) == before
    assert waiting(tmp_path) == []


def test_failure_of_a_result_that_is_still_being_measured_waits(tmp_path):
    fail(tmp_path, 1.0)
    assert ingest.ingest(tmp_path, now=10.0).failures == 0
    write_result(tmp_path, [None, None], [None, None])
    assert ingest.ingest(tmp_path, now=10.0).failures == 1


def test_rounds_of_a_result_that_is_still_being_measured_wait(tmp_path):
    spool(tmp_path, at(1.0, 1.0))
    assert ingest.ingest(tmp_path, now=10.0).waiting == 1
    write_result(tmp_path, [None, 1.0], [None, [1.0]])
    spool(tmp_path, at(2.0, 3.0))
    summary = ingest.ingest(tmp_path, now=10.0)
    assert (summary.moved, summary.waiting) == (1, 1)
    assert len(waiting(tmp_path)) == 1


def test_rounds_that_nothing_claims_are_pruned_after_a_day(tmp_path):
    spool(tmp_path, at(1.0, 1.0), at(90000.0, 2.0))
    summary = ingest.ingest(tmp_path, now=1.0 + ingest.GRACE + 1)
    assert (summary.pruned, summary.waiting) == (1, 1)


def session(root, began, **facts):
    line = sessions.encode(SessionFacts(began=began, facts=facts))
    append_line(sessions.spool_path(root, ENVIRONMENT, COMMIT), line)


def test_machine_facts_move_beside_the_rounds(tmp_path):
    path = write_result(tmp_path, [None, 1.5], [None, [1.0, 2.0]])
    spool(tmp_path, at(5.0, 1.0), at(6.0, 2.0))
    session(tmp_path, 4.0, governor="performance")
    session(tmp_path, 7.0, governor="powersave")  # has measured nothing yet
    assert ingest.ingest(tmp_path, now=10.0).waiting == 1
    assert [read.began for read in lines.read_sessions(path, [])] == [4.0]
    session(tmp_path, 4.0, governor="performance")  # a line that was moved already, as an interruption leaves it
    spool(tmp_path, at(5.0, 1.0))
    ingest.ingest(tmp_path, now=10.0)
    assert [read.facts for read in lines.read_sessions(path, [])] == [{"governor": "performance"}]


def test_machine_facts_without_rounds_are_dropped(tmp_path):
    path = write_result(tmp_path, [None, 1.0], [None, [1.0]])
    session(tmp_path, 4.0, governor="performance")
    assert ingest.ingest(tmp_path, now=10.0).waiting == 1
    assert lines.read_sessions(path, []) == ()
    assert ingest.ingest(tmp_path, now=4.0 + ingest.GRACE + 1).pruned == 1


def test_a_run_without_rounds_records_the_machine_facts(tmp_path):
    path = write_result(tmp_path, [None, 1.0], [None, [1.0]])
    began = asv_file.StoredFile(path).measured_at - 1.0
    session(tmp_path, began, governor="performance")
    ingest.ingest(tmp_path, now=began + 10.0, machine=path.parent.name)
    assert [record.began for record in lines.read_sessions(path, [])] == [began]


def test_a_malformed_session_is_set_aside(tmp_path):
    path = sessions.spool_path(tmp_path, ENVIRONMENT, COMMIT)
    append_line(path, '{"t": "noon"}')
    (problem,) = ingest.ingest(tmp_path, now=10.0).problems
    assert "a Unix time is wanted, got 'noon'" in problem
    assert path.with_name(f"{path.name}.malformed").exists() and not path.exists()


def test_a_new_measurement_replaces_the_rounds_of_the_old_one(tmp_path):
    write_result(tmp_path, [5.0, 1.0], [[5.0], [1.0]])
    spool(tmp_path, at(1.0, 1.0), at(1.0, 5.0, ("eager", "c")))
    ingest.ingest(tmp_path, now=10.0)
    write_result(tmp_path, [5.0, 2.0], [[5.0], [2.0]])
    spool(tmp_path, at(5.0, 2.0))
    ingest.ingest(tmp_path, now=10.0)
    assert sorted(estimates(tmp_path)) == [2.0, 5.0]  # the series that was not measured again keeps its round


@pytest.mark.parametrize("position", ["replace_text", "_put_back"])
def test_an_interruption_loses_nothing(tmp_path, monkeypatch, position):
    write_result(tmp_path, [None, 1.0], [None, [1.0]])
    spool(tmp_path, at(1.0, 1.0), at(2000.0, 7.0))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ingest, position, interrupted)
    with pytest.raises(KeyboardInterrupt):
        ingest.ingest(tmp_path, now=10.0)
    monkeypatch.undo()
    spool(tmp_path, at(2001.0, 8.0))  # measuring goes on
    summary = ingest.ingest(tmp_path, now=10.0)
    assert estimates(tmp_path) == [1.0]
    assert summary.waiting == 2


def test_ingest_waits_for_the_line_of_a_writer(tmp_path):
    write_result(tmp_path, [None, 1.5], [None, [1.0, 2.0]])
    spool(tmp_path, at(1.0, 1.0))
    path = spool_path(tmp_path, ENVIRONMENT, COMMIT)
    with path.open("ab") as writer, ThreadPoolExecutor() as pool:
        fcntl.flock(writer, fcntl.LOCK_SH)
        summary = pool.submit(ingest.ingest, tmp_path, now=10.0)
        while path.exists():  # until it is claimed
            time.sleep(0.001)
        writer.write(telemetry.encode(at(2.0, 2.0)).encode() + b"\n")
        writer.close()
        assert summary.result().moved == 2
    assert estimates(tmp_path) == [1.0, 2.0]


def test_writer_of_a_claimed_file_begins_a_new_one(tmp_path, monkeypatch):
    spool(tmp_path, at(1.0, 1.0))
    path = spool_path(tmp_path, ENVIRONMENT, COMMIT)
    flock = fcntl.flock

    def claimed_before_the_lock(*args):
        if path.exists():
            path.rename(path.with_name("claimed"))
            monkeypatch.setattr(fcntl, "flock", flock)
        flock(*args)

    monkeypatch.setattr(fcntl, "flock", claimed_before_the_lock)
    spool(tmp_path, at(2.0, 2.0))
    assert [telemetry.decode(line).estimate for line in waiting(tmp_path)] == [2.0]
    assert path.with_name("claimed").read_text().count("\n") == 1


def test_malformed_results_file_keeps_its_rounds_waiting(tmp_path):
    path = write_result(tmp_path, [None, 1.0], [None, [1.0]])
    good = path.read_text()
    spool(tmp_path, at(1.0, 1.0))
    for text in ("", "{", "[]", '{"results": 1}', '{"results": {}, "version": 99}'):
        path.write_text(text)
        summary = ingest.ingest(tmp_path, now=10.0)
        assert summary.waiting == 1
        (problem,) = summary.problems
        assert path.name in problem and "waits" in problem
        assert path.read_text() == text
    path.write_text(good)
    assert ingest.ingest(tmp_path, now=10.0).moved == 1


def test_another_commit_with_the_same_short_hash_claims_nothing(tmp_path):
    write_result(tmp_path, [None, 1.0], [None, [1.0]], commit=COMMIT[:8] + "b" * 32)
    spool(tmp_path, at(1.0, 1.0))
    assert ingest.ingest(tmp_path, now=10.0).waiting == 1


def test_a_dropped_value_is_restored_and_the_others_stay(tmp_path):
    path = write_result(tmp_path, [4.0, None], [[4.0, 4.5], None])
    spool(tmp_path, at(1.0, 1.0), at(2.0, 3.0), at(1.0, 4.0, ("eager", "c")), at(2.0, 4.5, ("eager", "c")))
    summary = ingest.ingest(tmp_path, now=10.0)
    (line,) = summary.restored
    assert "restored from 2 rounds" in line and NAME in line
    assert stored_values(path) == [4.0, 2.0]
    row = dict(zip(COLUMNS, json.loads(path.read_text())["results"][NAME], strict=False))
    assert row["samples"] == [[4.0, 4.5], [1.0, 3.0]]
    assert (row["started_at"], row["duration"], row["version"]) == (1000, 999.0, "1")
    assert ingest.ingest(tmp_path, now=10.0).restored == []


def test_wrong_numbers_are_forgotten_after_a_success(tmp_path):
    path = write_result(tmp_path, [4.0, None], [[4.0], None])
    spool(tmp_path, at(1.0, 1.0))
    fail(tmp_path, 2.0)
    assert ingest.ingest(tmp_path, now=10.0).failures == 1
    assert stored_values(path) == [4.0, None]
    assert len(stored_lines(tmp_path, suffix=".failures.jsonl")) == 1
    write_result(tmp_path, [4.0, 6.0], [[4.0], [6.0]])
    spool(tmp_path, at(50.0, 6.0))
    ingest.ingest(tmp_path, now=60.0)
    assert stored_lines(tmp_path, suffix=".failures.jsonl") == []


def pipe(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path):
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def many_lines(path):
    path.write_text("{}\n" * (lines.MOST_LINES + 1))


@pytest.mark.parametrize("put", [pipe, device, many_lines])
@pytest.mark.parametrize("name", ["{}", "{}.claimed-1"], ids=["waiting", "claimed"])
def test_what_is_no_file_of_lines_stays_in_the_spool(tmp_path, put, name):
    write_result(tmp_path, [None, 1.0], [None, [1.0]])
    spool(tmp_path, at(1.0, 1.0))
    path = spool_path(tmp_path, ENVIRONMENT, COMMIT)
    strange = path.with_name(name.format(path.name))
    put(strange)
    (problem,) = ingest.ingest(tmp_path, now=10.0).problems
    assert strange.name in problem and "\n" not in problem
    assert estimates(tmp_path) == ([1.0] if strange != path else [])
    assert [file for file in path.parent.iterdir() if file.name.startswith(strange.name)]
    if put is pipe and strange == path:
        with pytest.raises(SpoolError, match="a regular file is wanted"):
            append_line(path, "{}")


def test_bytes_that_are_no_text_are_set_aside_once(tmp_path):
    write_result(tmp_path, [None, 1.0], [None, [1.0]])
    spool(tmp_path, at(1.0, 1.0))
    path = spool_path(tmp_path, ENVIRONMENT, COMMIT)
    beside = tmp_path / "results" / "box" / "telemetry" / f"{COMMIT[:8]}-{ENVIRONMENT}.jsonl"
    beside.parent.mkdir()
    line = telemetry.encode(at(1.0, 1.0)).encode().replace(b'"l":"l"', b'"l":"\xff"')
    for file in (path, beside):
        with file.open("ab") as stream:
            stream.write(line + b"\n")
    problems = ingest.ingest(tmp_path, now=10.0).problems
    assert len(problems) == 2 and all("not UTF-8" in problem for problem in problems)
    assert estimates(tmp_path) == [1.0]
    assert ingest.ingest(tmp_path, now=10.0).problems == []


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ([[1.0]], "params: a list of lists is wanted, got 'None'"),
        ([[1.0], ["'eager'"]], "params: a list of lists is wanted"),
        ([[1.0], [["'eager'"], ["'a'", "'b'"]]], "result: a list of 2 is wanted, got '[1.0]'"),
        ([1.0, [["'eager'"], ["'a'"]]], "result: a list of 1 is wanted, got '1.0'"),
    ],
)
def test_a_damaged_row_of_results_is_one_line(tmp_path, row, complaint):
    path = write_result(tmp_path, [None, 1.0], [None, [1.0]])
    data = json.loads(path.read_text())
    data["results"][NAME] = row
    path.write_text(json.dumps(data))
    spool(tmp_path, at(1.0, 1.0))
    summary = ingest.ingest(tmp_path, now=10.0)
    (problem,) = summary.problems
    assert complaint in problem and NAME in problem and "\n" not in problem
    assert summary.waiting == 1


def test_command_reports_and_signals_malformed_lines(tmp_path):
    status, _, err = kv("ingest", "--root", tmp_path)
    assert status == 2 and "no asv.conf.json" in err
    (tmp_path / "asv.conf.json").write_text("{}")
    status, out, _ = kv("ingest", "--root", tmp_path)
    assert status == 0
    assert out == "0 rounds and 0 failures moved, 0 lines wait for their result, 0 pruned\n"


def test_command_waits_for_no_run_that_measures(tmp_path, monkeypatch):
    spool(tmp_path, at(1.0, 1.0))
    (tmp_path / "asv.conf.json").write_text("{}")
    with lock.held(tmp_path):
        monkeypatch.setenv(lock.HOLDER, "1")
        status, _, err = kv("ingest", "--root", tmp_path)
    assert status == 2
    assert err.startswith("error: another run is measuring in this clone")
    assert len(waiting(tmp_path)) == 1


def test_locks_that_nfs_turns_into_posix_locks(tmp_path, monkeypatch):
    """There a shared lock wants a file that is open for reading, an exclusive one for writing."""
    monkeypatch.setattr(fcntl, "flock", fcntl.lockf)
    write_result(tmp_path, [None, 1e-3], [None, [1e-3]])
    spool(tmp_path, at(1000.0, 1e-3))
    assert ingest.ingest(tmp_path, now=2000.0).moved == 1
