"""Plans: each commit of a lane once, on one machine, in blocks that share anchors and keep to the limits."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.fleet.plan import Lane, Limits, missing, plan
from kernel_velocity.runner.report import Pace

COMMITS = tuple(f"{number:040x}" for number in range(40))
MACHINES = ("a", "b", "c", "d")


@st.composite
def cases(draw):
    commits = COMMITS[: draw(st.integers(1, 40))]
    machines = MACHINES[: draw(st.integers(1, 4))]
    lanes = []
    for number in range(draw(st.integers(1, 6))):
        done = frozenset(draw(st.sets(st.sampled_from(commits))))
        lane = Lane(name=f"kernel{number} case", series=draw(st.integers(1, 6)), done=done)
        if done:
            lane = replace(lane, machine=draw(st.sampled_from(MACHINES)), anchors=tuple(sorted(done))[:3])
        lanes.append(lane)
    limits = Limits(
        rounds=draw(st.integers(1, 8)),
        pace=Pace(a_round=draw(st.floats(0.1, 10)), a_build=draw(st.floats(0, 60))),
        session=draw(st.floats(60, 7200)),
        budget=draw(st.sampled_from([600.0, 3600.0, float("inf")])),
        anchors=draw(st.integers(0, 4)),
    )
    return commits, lanes, machines, limits


@given(cases())
def test_each_missing_commit_of_a_lane_is_planned_once(case):
    commits, lanes, machines, limits = case
    result = plan(commits, lanes, machines, limits)
    jobs = (*result.jobs, *result.left)
    planned = Counter((name, commit) for job in jobs for name in job.lanes for commit in job.commits)
    assert planned == Counter((lane.name, commit) for lane in lanes for commit in missing(commits, lane))


@given(cases())
def test_a_lane_stays_on_one_machine_where_it_began(case):
    commits, lanes, machines, limits = case
    result = plan(commits, lanes, machines, limits)
    for lane in lanes:
        machines_of_lane = {job.machine for job in (*result.jobs, *result.left) if lane.name in job.lanes}
        assert len(machines_of_lane) <= 1
        if lane.machine in machines and machines_of_lane:
            assert machines_of_lane == {lane.machine}


@given(cases())
def test_blocks_of_a_lane_share_its_anchors(case):
    commits, lanes, machines, limits = case
    result = plan(commits, lanes, machines, limits)
    for lane in lanes:
        blocks = [job for job in (*result.jobs, *result.left) if lane.name in job.lanes]
        assert len({job.anchors for job in blocks}) <= 1
        for job in blocks:
            assert set(job.anchors) <= set(job.measured)
            expected = (lane.anchors or missing(commits, lane))[: limits.anchors]
            assert job.anchors == expected


@given(cases())
def test_sessions_and_machines_keep_to_their_limits(case):
    commits, lanes, machines, limits = case
    result = plan(commits, lanes, machines, limits)
    for job in (*result.jobs, *result.left):
        alone = len(job.commits) == 1 or len(job.measured) == len(job.anchors)
        assert job.seconds <= limits.session + 1e-6 or alone
    for machine in machines:
        assert sum(job.seconds for job in result.of(machine)) <= limits.budget


def test_a_lane_of_a_lost_machine_moves_whole_with_its_anchors():
    lane = Lane(name="k c", series=2, machine="lost", done=frozenset(COMMITS[:4]), anchors=COMMITS[:2])
    (job,) = plan(COMMITS[:8], [lane], ("a",), Limits(rounds=8)).jobs
    assert (job.machine, job.commits, job.anchors) == ("a", COMMITS[4:8], COMMITS[:2])
    assert job.measured == (*COMMITS[:2], *COMMITS[4:8])


def test_a_machine_that_refused_a_lane_does_not_get_it_again():
    lane = Lane(name="k c", series=1, machine="a", refused=frozenset("a"))
    limits = Limits(rounds=1)
    assert [job.machine for job in plan(COMMITS[:2], [lane], ("a", "b"), limits).jobs] == ["b"]
    assert not plan(COMMITS[:2], [lane], ("a",), limits).jobs


def test_work_is_shared_and_the_newest_commits_come_first():
    lanes = [Lane(name=f"k {number}", series=4) for number in range(6)]
    limits = Limits(rounds=8, session=1200.0)
    result = plan(COMMITS, lanes, ("a", "b", "c"), limits)
    loads = [sum(job.seconds for job in result.of(name)) for name in "abc"]
    assert max(loads) == pytest.approx(min(loads))
    for name in "abc":
        newest = [min(map(COMMITS.index, job.commits)) for job in result.of(name)]
        assert newest == sorted(newest)
        assert len(newest) > 2


def test_idle_machine_comes_before_a_busy_one():
    (job,) = plan(COMMITS[:2], [Lane(name="k c", series=1)], ("a", "b"), Limits(rounds=1), {"a": 60.0}).jobs
    assert job.machine == "b"
