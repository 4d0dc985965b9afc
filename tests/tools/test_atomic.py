"""Files that are replaced whole or not at all."""

import pytest

from tools.atomic import replace_text


def test_a_text_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "new" / "a.txt"
    for text in ("one", "two"):
        replace_text(path, text)
    assert path.read_text() == "two"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("text", "error"), [("text", OSError), ("\ud800", UnicodeEncodeError)])
def test_what_cannot_be_written_leaves_no_temporary_file(tmp_path, text, error):
    folder = tmp_path / "a"
    folder.mkdir()
    with pytest.raises(error):
        replace_text(folder, text)
    assert list(tmp_path.iterdir()) == [folder]
