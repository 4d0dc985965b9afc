"""Two commits under several link orders, on simulated machines: one an order, each with layouts of its own."""

import pytest

from kernel_velocity.ab import relink
from kernel_velocity.errors import UsageError
from kernel_velocity.stats.sequential import Answer, Obstacle
from tests.ab.simulated_machine import OTHER, SERIES, Machine

HOUR = 3600.0
LAYOUTS = ((1.0, 1.04), (1.05, 1.0), (1.0, 1.0), (1.03, 1.06))  # by what factor each side is slower, order by order


def machines(change=1.0, layouts=LAYOUTS, **more):
    return [
        Machine(
            speed={"a": before, "b": {SERIES: after * change}},
            placements={"a": f"a{order}", "b": f"b{order}"},
            noise=0.003,
            seed=order,
            **more,
        )
        for order, (before, after) in enumerate(layouts)
    ]


def only(runners, budget=HOUR):
    return relink.confirm(runners, "a", "b", [SERIES], budget)[SERIES]


def test_layout_alone_is_no_change_and_a_change_beyond_it_is():
    comparison = only(machines())
    assert comparison.answer is Answer.UNKNOWN and not comparison.suspect
    assert comparison.reason.startswith("no change beyond layout is shown: ")
    comparison = only(machines(change=1.3))
    assert comparison.slower and comparison.rounds == 32
    assert comparison.low < 1.3 < comparison.high


def test_drift_between_link_orders_moves_no_change():
    layouts = [(1.0 + 0.2 * order, 1.0 + 0.2 * order) for order in range(4)]
    assert only(machines(layouts=layouts)).answer is Answer.SAME


def test_series_with_the_same_code_is_not_measured():
    runners = machines(codes={"a": "x", "b": "x"})
    comparison = only(runners)
    assert (comparison.answer, comparison.p) == (Answer.SAME, None)
    assert comparison.reason == "the machine code is unchanged: only its place in the library can differ"
    assert not any(runner.requests for runner in runners)


@pytest.mark.parametrize("layouts", [dict.fromkeys("a", "here"), {"b": None}], ids=["seed ignored", "no library"])
def test_build_that_ignores_the_link_order_is_refused(layouts):
    runners = machines()
    for runner in runners:
        runner.placements |= layouts
    with pytest.raises(UsageError, match=r"--relink 4: [01] of these link orders give a and b a layout of their own"):
        only(runners)
    assert not any(runner.requests for runner in runners)


def test_order_that_repeats_a_layout_is_not_measured():
    runners = machines(change=1.3, layouts=LAYOUTS * 2)
    runners[1].placements["a"], runners[5].placements["b"] = runners[0].placements["a"], runners[4].placements["b"]
    assert only(runners).rounds == 6 * 8
    assert [len(runner.requests) for runner in runners] == [1, 0, 1, 1, 1, 0, 1, 1]


def test_orders_that_the_budget_leaves_out_do_not_count():
    runners = machines(change=1.3, layouts=LAYOUTS * 2)
    for runner, begin in zip(runners, range(0, 160, 16), strict=False):
        runner.now = float(begin)  # they share the clock of one machine
    comparison = only(runners, budget=16 * 5 + 3)
    assert comparison.slower and comparison.rounds == 5 * 8
    runners = machines(change=1.3)
    for runner in runners[2:]:
        runner.now = HOUR
    comparison = only(runners)
    assert comparison.unseen
    assert comparison.reason == "2 of the 4 link orders that the test takes were measured"


@pytest.mark.parametrize("fault", ["unbuildable", "failing"])
def test_fault_of_one_order_is_the_answer(fault):
    runners = machines()
    setattr(runners[2], fault, ("b",))
    comparisons = relink.confirm(runners, "a", "b", [SERIES, OTHER], HOUR)
    wanted = Obstacle.NOT_BUILT if fault == "unbuildable" else Obstacle.FAILED
    assert {comparison.obstacle for comparison in comparisons.values()} == {wanted}
