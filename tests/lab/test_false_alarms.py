"""The command, from files of generated sessions to its tables."""

import io
import random
from pathlib import Path

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.errors import ResultsError
from kernel_velocity.lab import false_alarms, sessions
from kernel_velocity.lab.false_alarms import ADJUSTED, CONFIRMING, LAYOUTS, OURS, RAW, TESTS, judge
from tests.golden import check_golden
from tests.lab import sessions as generated
from tests.lab.sessions import changed, series

GOLDEN = Path(__file__).parent / "golden" / "false_alarms.txt"
NAMES = [str(layout) for layout in LAYOUTS]


@pytest.fixture
def said(tmp_path):
    """Return a function that writes sessions and returns what the command says of them: status, output, errors."""

    def run(found, folder="sessions", **how):
        out, err = io.StringIO(), io.StringIO()
        path = generated.write(found, tmp_path / folder, **how)
        return main(["lab", "false-alarms", "--read", str(path)], out, err), out.getvalue(), err.getvalue()

    return run


def of(found, layout, test, values):
    (item,) = (item for item in found if (item.layout, item.test, item.values) == (layout, test, values))
    return item


def covered(found, layout):
    """Return the series that a layout was judged by, which every test and both kinds of values share."""
    (same,) = {item.series for item in found if item.layout == layout} or {()}
    return same


def replaced(found, name, change, chosen):
    """Return the sessions with other rounds of the first series in one of them."""
    return found | {name: [change(item) if chosen(item) else item for item in found[name]]}


def test_golden(said, accept):
    status, out, err = said(
        generated.sessions(7, common=0.01, kernels=("add", "matmul"), implementations=("native", "eager"))
    )
    assert (status, err) == (0, "")
    check_golden(GOLDEN, out, accept=accept)


def test_the_same_sessions_give_the_same_tables(said):
    found = generated.sessions(6, common=0.01)
    assert said(found) == said(found, "again", compressed=True)


def test_every_layout_is_judged_by_every_test_raw_and_adjusted():
    found = judge(generated.sessions(5))
    kinds = {(item.layout, item.test, item.values) for item in found}
    assert len(found) == len(kinds) == (len(LAYOUTS) - 1) * len(TESTS) * 2
    assert CONFIRMING not in {item.layout for item in found}  # that asks for sixteen rounds


def test_more_rounds_find_more():
    """Where rounds scatter and nothing else does, sixteen say more of a session than eight."""
    found = judge(generated.sessions(10, noise=0.02, count=16))
    eight, sixteen = (of(found, layout, "ours", RAW).powers[0.05][0] for layout in (OURS, CONFIRMING))
    assert eight < 0.6 < sixteen


def test_sessions_of_sixteen_rounds_are_judged_by_both_layouts(said):
    _, out, _ = said(generated.sessions(5, count=16))
    assert [line.split(":")[1].split(",")[0] for line in out.splitlines() if line.startswith("by series")] == [
        " 8 x 1",
        " 16 x 1",
    ]


def test_controls_are_not_judged():
    found = judge(generated.sessions(5, implementations=("native", "eager", "compile")))
    assert covered(found, OURS) == (series(),)


def test_a_factor_that_the_gauges_show_makes_alarms_only_where_nothing_is_adjusted():
    found = judge(generated.sessions(10, common=0.05))
    assert of(found, OURS, "asv's", RAW).alarms.share > 0.5
    assert of(found, OURS, "ours", ADJUSTED).alarms.different == 0
    assert of(found, OURS, "asv's", ADJUSTED).alarms.share < 0.2


def test_what_the_gauges_show_hides_a_change_only_where_nothing_is_adjusted():
    found = judge(generated.sessions(10, common=0.05))
    assert of(found, OURS, "ours", RAW).powers[0.05][0] < 0.2
    assert of(found, OURS, "ours", ADJUSTED).powers[0.05][0] == 1


def test_blocks_are_adjusted_as_their_rounds_are():
    found = judge(generated.sessions(10, common=0.05))
    sixteen = LAYOUTS[1]
    assert of(found, sixteen, "ours", RAW).powers[0.05][0] < 0.2
    assert of(found, sixteen, "ours", ADJUSTED).powers[0.05][0] == 1


def test_a_planted_change_is_found_by_its_size():
    powers = of(judge(generated.sessions(8)), OURS, "ours", RAW).powers
    assert [powers[change][0] for change in (0.02, 0.03, 0.05)] == [1, 1, 1]
    assert powers[0.01][0] < 1


def test_a_session_that_no_gauge_explains_is_an_alarm_in_all_its_pairs():
    found = judge(generated.sessions(8, changes=[1.2]))
    assert of(found, OURS, "ours", ADJUSTED).alarms.different == 7


def test_every_series_has_its_own_line(said):
    found = generated.sessions(8, kernels=("add", "matmul"))
    wild = replaced(found, "03", lambda item: generated.slowed(item, 1.2), lambda item: item.series == series())
    _, out, _ = said(wild)
    calm, odd = (line.split() for line in out.splitlines()[-2:])
    assert (calm[0], odd[0]) == ("add.Cpu.time_hot", "matmul.Cpu.time_hot")
    assert (calm[3:7], odd[3], odd[5]) == (["0%", "<52.7%", "0%", "<52.7%"], "25.0%", "25.0%")
    judged = judge(wild)
    assert of(judged, OURS, "ours", RAW).alarms.share == 7 / 56


@pytest.mark.parametrize(
    ("blocks", "left"),
    [
        (16, NAMES),
        (15, ["2 x 5", "4 x 1", "8 x 1", "16 x 1"]),
        (4, ["4 x 1", "8 x 1", "16 x 1"]),
        (0, ["4 x 1", "8 x 1", "16 x 1"]),
    ],
)
def test_a_series_with_too_few_blocks_is_left_out_of_a_layout(blocks, left):
    def cut(item):
        return changed(item, blocks=item.blocks[:blocks])

    found = generated.sessions(5, kernels=("add", "matmul"), count=16)
    found = judge(replaced(found, "02", cut, lambda item: item.series == series()))
    assert [str(layout) for layout in LAYOUTS if series() in covered(found, layout)] == left
    assert all(series(kernel="add") in covered(found, layout) for layout in LAYOUTS)


@pytest.mark.parametrize(
    ("rounds", "left"), [(16, NAMES), (8, NAMES[:-1]), (7, NAMES[:-2]), (3, ["2 x 5"]), (1, []), (0, [])]
)
def test_a_series_with_too_few_rounds_in_a_session_is_left_out_of_a_layout(rounds, left):
    found = generated.sessions(5, kernels=("add", "matmul"), count=16)
    kept = [item for item in found["02"] if item.series == series()][:rounds]
    found["02"] = [item for item in found["02"] if item.series != series()] + kept
    judged = judge(found)
    assert [str(layout) for layout in LAYOUTS if series() in covered(judged, layout)] == left
    assert all(series(kernel="add") in covered(judged, layout) for layout in LAYOUTS)


def test_without_blocks_the_layouts_of_single_values_are_left(said):
    found = {name: [changed(item, blocks=()) for item in rounds] for name, rounds in generated.sessions(5).items()}
    status, out, _ = said(found)
    assert status == 0
    assert {" ".join(line.split()[:3]) for line in out.splitlines()[2:10]} == {"4 x 1", "8 x 1"}


def test_a_round_without_a_gauge_leaves_its_series_raw(said):
    """Its adjusted figures are not known."""
    found = generated.sessions(5, kernels=("add", "matmul"))
    gone = replaced(
        found,
        "02",
        lambda item: changed(item, core_gauge=None, memory_gauge=None),
        lambda item: item.series == series() and item.round.launch == "2-3",
    )
    status, out, err = said(gone)
    assert (status, err) == (0, "")
    line = out.splitlines()[-1].split()
    assert line[0] == "matmul.Cpu.time_hot"
    assert [text == "-" for text in line[3:]] == [False, False, True, True, *[False, True] * 3]


def test_without_any_adjusted_series_the_raw_ones_are_shown(said):
    gone = replaced(
        generated.sessions(5),
        "02",
        lambda item: changed(item, core_gauge=None, memory_gauge=None),
        lambda item: item.round.launch == "2-3",
    )
    status, out, err = said(gone)
    assert (status, err) == (0, "")
    assert "10 pairs" in out
    assert out.splitlines()[-1].split()[3:7] == ["0%", "<77.6%", "-", "-"]
    assert out.splitlines()[-1].count(" -") == 5


def test_the_first_rounds_count_whatever_their_order_in_the_file():
    found = generated.sessions(5, common=0.01, count=16)
    shuffled = {name: random.Random(name).sample(rounds, len(rounds)) for name, rounds in found.items()}
    values = sessions.logs(found)[series()]
    for layout in LAYOUTS:
        one, other = (false_alarms._array(layout, series(), values, each) for each in (found, shuffled))
        assert one.shape == (5, layout.rounds, layout.samples)
        assert one.tolist() == other.tolist()
    first = false_alarms._array(LAYOUTS[2], series(), values, found)[1, :, 0]
    assert first.tolist() == [values["01", launch] for launch in ("1-9", "1-8", "1-7", "1-6")]


@pytest.mark.parametrize("number", [1, 4])
def test_too_few_sessions(said, number):
    status, out, err = said(generated.sessions(number))
    assert (status, out) == (2, "")
    assert err == f"error: {number} sessions: at least 5 say how often identical code differs\n"


def test_too_few_sessions_to_measure_is_a_usage_error():
    err = io.StringIO()
    assert main(["lab", "false-alarms", "--sessions", "4"], io.StringIO(), err) == 2
    assert err.getvalue() == "error: --sessions 4: at least 5 say something\n"


def test_no_whole_series(said):
    found = generated.sessions(5)
    found["03"] = found["03"][:-1]
    status, out, err = said(found)
    assert (status, out) == (2, "")
    assert err == "error: no series has 8 rounds in every one of 5 sessions\n"


def test_only_controls_are_no_series():
    with pytest.raises(ResultsError, match="no series has 8 rounds"):
        judge(generated.sessions(5, implementations=("eager",)))


def test_an_absent_folder(tmp_path):
    err = io.StringIO()
    assert main(["lab", "false-alarms", "--read", str(tmp_path / "absent")], io.StringIO(), err) == 2
    assert err.getvalue().startswith(f"error: {tmp_path / 'absent'}: no sessions")


def test_a_series_with_nothing_to_adjust_by_has_no_adjusted_row(said):
    bare = {
        name: [changed(item, core_gauge=None, memory_gauge=None) for item in rounds]
        for name, rounds in generated.sessions(5).items()
    }
    _, out, _ = said(bare)
    assert not any(line.split()[4:5] == ["adjusted"] for line in out.splitlines())
    assert out.splitlines()[-1].split()[5:7] == ["-", "-"]
