"""Replaying: what rules take of a trace, how far off they are, what is printed and written."""

import argparse
import io
import json
import re
from functools import partial

import numpy as np
import pytest

from kernel_velocity import tables
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.harness.statistics import trimmed_mean
from kernel_velocity.harness.stopping import RULES, CoefficientOfVariation, FixedCount, FixedTime, ReactiveBenchmarking
from kernel_velocity.lab import replay as command
from kernel_velocity.lab import rules
from kernel_velocity.lab.noise import HELD_OUT
from kernel_velocity.lab.rules import ENDED, Costs, Outcome, compare, repeatability, replay, summary
from kernel_velocity.results import traces as trace_files
from kernel_velocity.results.traces import Trace


def trace(samples, truth=1e-3, batch=1, source="a"):
    return Trace(source=source, samples=list(samples), batch=batch, truth=truth)


def outcome(error=0.01, source="a", estimate=1e-3, spent=1.0, covered=True):
    return Outcome(
        source=source,
        estimate=estimate,
        error=error,
        error_of_mean=2 * error,
        covered=covered,
        spent=spent,
        n=10,
        reason="converged",
        correlation=0.5,
        correlation_kept=None,
    )


def test_an_outcome_is_what_the_rule_took():
    samples = [2e-3] * 20 + [1e-3] * 80 + [5e-3] * 100
    found = replay(FixedCount(n=100), trace(samples, truth=1.25e-3))
    assert (found.n, found.reason) == (100, "complete")
    assert found.estimate == pytest.approx(1e-3)  # without the first fifth
    assert found.error == pytest.approx(0.2)
    assert found.error_of_mean == pytest.approx(0.04)  # of 1.2 ms
    assert found.spent == pytest.approx(0.12)
    assert found.correlation > 0.9
    assert found.correlation_kept is None  # constant: nothing to correlate
    assert found.covered is False


def test_a_batch_costs_all_its_calls():
    found = replay(FixedTime(t_max=0.1), trace([1e-3] * 1000, batch=5))
    assert (found.n, found.spent) == (20, pytest.approx(0.1))


def test_a_trace_that_is_too_short_says_so():
    found = replay(FixedCount(n=100), trace([1e-3] * 30))
    assert (found.n, found.reason) == (30, ENDED)
    exact = replay(FixedCount(n=30), trace([1e-3] * 30))
    assert exact.reason == "complete"


def test_a_trace_that_ends_with_the_dropped_phase_is_judged_by_that():
    # 10 samples of .2 s are the first phase, too noisy to converge: dropped, and then there is nothing more
    samples = [0.2, 0.3] * 5
    found = replay(ReactiveBenchmarking(), trace(samples, truth=0.25))
    assert (found.n, found.reason) == (10, "converged")  # alternating: a negative correlation exceeds no threshold
    samples = [0.2] * 5 + [0.3] * 5
    found = replay(ReactiveBenchmarking(), trace(samples, truth=0.25))
    assert (found.n, found.reason) == (10, ENDED)
    assert found.estimate == pytest.approx(trimmed_mean(samples[2:]))


def test_coverage_counts_only_intervals_that_exist():
    known = [outcome(covered=True), outcome(covered=False), outcome(covered=None)]
    assert summary("x", known).coverage == 0.5
    assert summary("x", known[2:]).coverage is None


def test_a_summary_is_over_all_traces():
    errors = [0.001, 0.002, 0.004, 0.006, 0.1]
    found = summary("x", [outcome(error) for error in errors])
    assert (found.median, found.p90) == (0.004, pytest.approx(np.quantile(errors, 0.9)))
    assert found.close == 0.6
    assert (found.total, found.traces) == (5.0, 5)
    assert found.median_of_mean == 0.008
    assert found.reasons == (("converged", 5),)
    assert (found.correlation, found.correlation_kept) == (0.5, None)


def test_the_same_total_time_is_found_and_never_less():
    traces = [trace([1e-3] * 5000), trace([7e-3] * 700), trace([0.03] * 50, batch=3)]
    costs = Costs(4.0)
    for each in traces:
        costs.add(each)
    for total in (0.5, 1.7, 6.0):
        seconds = costs.time_for(total)
        spent = sum(replay(FixedTime(t_max=seconds), each).spent for each in traces)
        assert total <= spent * 1.0001
        assert spent < 1.01 * total + 0.1  # half a percent, and one sample of each


def test_no_time_costs_more_than_there_is():
    costs = Costs(4.0)
    costs.add(trace([1e-3] * 10))
    assert costs.time_for(1.0) == pytest.approx(4.0)


def test_a_rule_that_is_worse_everywhere_is_always_worse():
    sources = [str(number) for number in range(12)]
    good = [outcome(0.001 * (1 + number), source) for number, source in enumerate(sources)]
    bad = [outcome(1.1 * each.error, each.source) for each in good]
    found = compare("bad", "good", {"bad": bad, "good": good}, seed=1)
    assert (found.worse_median, found.worse_p90) == (1.0, 1.0)
    found = compare("good", "bad", {"bad": bad, "good": good}, seed=1)
    assert (found.worse_median, found.worse_p90) == (0.0, 0.0)


def test_sources_are_drawn_with_all_their_repetitions():
    # one source of nine decides: it is in 1 - (8/9)^9 = 65% of resamples; with outcomes drawn one by one in 56%
    good = [outcome(0.001, str(number // 5)) for number in range(45)]
    bad = [outcome(0.5 if each.source == "0" else 0.001, each.source) for each in good]
    found = compare("bad", "good", {"bad": bad, "good": good}, seed=1)
    assert 0.62 < found.worse_p90 < 0.69


def test_repeatability_is_within_a_source():
    estimates = {"a": (1.0, 1.02), "b": (5.0, 5.5), "c": (9.0, 9.1)}
    found = repeatability("x", [outcome(source=key, estimate=one) for key, each in estimates.items() for one in each])
    spreads = [np.std(each, ddof=1) / np.mean(each) for each in estimates.values()]
    assert found.deviation == pytest.approx(np.median(spreads))
    assert found.seconds == 1.0


def document(samples, **others):
    return {"format": 1, "unit": "s", "batch": 2, "seconds": samples, **others}


def written(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return path


def test_a_recorded_trace_is_its_own_baseline(tmp_path):
    path = written(tmp_path, "t.json", document([9e-3] * 20 + [1e-3] * 80))
    (found,) = trace_files.read([path])
    assert (found.truth, found.batch, len(found.samples)) == (pytest.approx(1e-3), 2, 100)


def test_a_long_trace_s_baseline_are_its_last_ten_thousand(tmp_path):
    path = written(tmp_path, "t.json", document([9e-3] * 6000 + [1e-3] * 10_000))
    (found,) = trace_files.read([path])
    assert found.truth == pytest.approx(1e-3)


def test_folders_are_gone_through(tmp_path):
    one = written(tmp_path / "process-01", "a.json", document([1e-3]))
    two = written(tmp_path / "process-02", "a.json", document([1e-3]))
    written(tmp_path / "process-02", "missing.json", "{}")
    written(tmp_path / "process-02", "started.json", "{}")
    assert trace_files.files([tmp_path]) == [one, two]
    assert trace_files.files([two]) == [two]


def test_a_place_without_traces_is_an_error(tmp_path):
    with pytest.raises(UsageError, match=r"no traces; `kv lab record`"):
        trace_files.files([tmp_path])
    with pytest.raises(UsageError, match="no such file or folder"):
        trace_files.files([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (json.dumps(document([1e-3] * 9))[:-20], "no trace .* cut off: record it again"),
        ("[1, 2]", "no trace of format 1 in seconds"),
        (document([1e-3], format=2), "no trace of format 1 in seconds"),
        (document([1e-3], unit="ms"), "no trace of format 1 in seconds"),
        (document([]), "no samples"),
        (document(None), "no samples"),
        (document([1e-3, 0.0]), r"sample 1 is 0\.0; wanted a time from 1e-12"),
        (document([1e-3, -1.0]), r"sample 1 is -1\.0"),
        (document(["1e-3"]), "sample 0 is '1e-3'"),
        (document([float("nan")]), "sample 0 is nan"),
        (document([1e-3], batch=0), "batch 0; wanted"),
        (document([1e-3], batch=None), "batch None; wanted"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, content, says):
    with pytest.raises(ResultsError, match=says):
        list(trace_files.read([written(tmp_path, "t.json", content)]))


@pytest.fixture
def small(monkeypatch):
    """Three mixtures, three rules: a replay of a second."""
    contenders = {
        **{name: RULES[name] for name in command.OURS},
        "cv": CoefficientOfVariation,
        "fixed_time, 1 s": partial(FixedTime, t_max=1.0),
    }
    monkeypatch.setattr(command, "CONTENDERS", contenders)
    monkeypatch.setattr(command, "DEFAULT_MIXTURES", 3)
    monkeypatch.setattr(command, "DEFAULT_REPETITIONS", 2)
    monkeypatch.setattr(command, "REPEATED", 1)
    monkeypatch.setattr(command, "REPETITIONS", 3)


def run(*argv):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    out, err = io.StringIO(), io.StringIO()
    status = command.run(parser.parse_args([str(arg) for arg in argv]), out, err)
    return status, out.getvalue(), err.getvalue()


@pytest.mark.slow
def test_the_command_prints_tables_and_writes_a_page(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    written(tmp_path / ".asv/traces", "t.json", document((1e-3 * np.exp(0.01 * rng.standard_normal(900))).tolist()))
    status, out, _ = run("--seed", 3)
    assert status == 0
    for title in ("tuning (seed 3): 6 traces", "held out (seed 3): 6 traces", "recorded (seed 3): 1 traces"):
        assert title in out
    assert len(re.findall(r"^fixed_time, equal to adaptive(\.round)?  ", out, re.MULTILINE)) == 6
    page = (tmp_path / ".asv/replay/index.html").read_text()
    for text in ("held out", "adaptive", "budget", "trace ended"):
        assert text in page
    assert "GFLOPS" not in page  # the other pages' explanations are not about this one
    assert (tmp_path / ".asv/replay/static/bokeh.min.js").exists()
    assert (tmp_path / ".asv/replay/static/style.css").exists()
    again = run("--seed", 3, "--out", tmp_path / "b")[1]
    assert again.splitlines()[:-1] == out.splitlines()[:-1]
    assert run("--seed", 4, "--out", tmp_path / "c")[1].splitlines()[:9] != out.splitlines()[:9]


def test_a_seed_is_a_number_from_zero_on(small):
    with pytest.raises(UsageError, match="--seed -1"):
        run("--seed", -1)


def test_the_full_proof_is_two_hundred_mixtures_ten_times(monkeypatch):
    asked = []
    monkeypatch.setattr(command, "result", lambda title, traces, seed: asked.append((title, traces)))
    monkeypatch.setattr(command, "by_family", lambda seed: {})
    monkeypatch.setattr(command, "repeated", lambda seed: ())
    command.prove(5, full=True, recorded=[])
    assert [(title, each.mixtures, each.repetitions, each.seed) for title, each in asked] == [
        ("tuning", 200, 10, 5),
        ("held out", 200, 10, 5),
    ]
    assert asked[0][1].namespace != asked[1][1].namespace == HELD_OUT


def test_every_rule_and_the_honest_baselines_contend():
    assert set(RULES) < set(command.CONTENDERS)
    assert {"fixed_time, 1 s", "fixed_time, 2 s"} < set(command.CONTENDERS)


@pytest.mark.parametrize(("value", "shown"), [(None, "-"), (0.0, "0%"), (0.00123, "0.123%"), (0.5, "50.0%")])
def test_percentages(value, shown):
    assert tables.percent(value) == shown


def test_common_random_numbers():
    first, second = (list(command.Synthetic(namespace=HELD_OUT, seed=0, mixtures=2, repetitions=2)) for _ in range(2))
    assert [each.samples for each in first] == [each.samples for each in second]
    assert [each.source for each in first] == ["000", "000", "001", "001"]
    assert len({tuple(each.samples[:5]) for each in first}) == 4
    assert rules.CLOSE == 0.005
