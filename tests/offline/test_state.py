"""The state survives what ends a slice, and belongs to what was asked for."""

from kernel_velocity.offline.stages import NAME, Done, load


def test_what_was_finished_is_known_to_the_next_slice(tmp_path):
    state = load(tmp_path)
    state.slices += 1
    state.notes.append("no nvcc")
    state.finish("tests", Done(0, "asked"))
    state.finish_commits("core", ("a", "b"), Done(20, "asked"), 31.5)
    again = load(tmp_path)
    assert again == state
    assert again.has("tests", "asked") and not again.has("tests", "asked otherwise") and not again.has("build", "asked")
    assert again.has_commit("core", "b", "asked") and not again.has_commit("full", "b", "asked")
    assert not again.has_commit("core", "b", "asked otherwise")
    assert again.seconds == {"core": 31.5}


def test_a_broken_state_makes_stages_run_again_and_nothing_worse(tmp_path):
    load(tmp_path).finish("tests", Done(0, "asked"))
    for text in ("", "{", "[]", '{"stages": {"tests": {}}}'):
        (tmp_path / NAME).write_text(text)
        assert load(tmp_path).stages == {}
