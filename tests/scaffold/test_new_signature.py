"""The arguments of a kernel to be: names in both languages, refused types."""

import builtins
import keyword
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.errors import UsageError
from kernel_velocity.scaffold.new import TYPES, of_problem

WORDS = [
    *("x", "X", "A", "a", "shape", "input", "stream", "template"),
    *("lambda", "i", "float", "out", "d_out", "sum", "2d", "é"),
]


@given(st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(sorted(TYPES)), st.booleans(), st.booleans())))
def test_argument_names_are_valid_in_both_languages(entries):
    keys = ("name", "type", "pointer", "const")
    arguments = of_problem("file", [dict(zip(keys, entry, strict=True)) for entry in entries])
    assert len({argument.called for argument in arguments}) == len({argument.name for argument in arguments})
    assert len({argument.name for argument in arguments}) == len(entries)
    for (_, kind, pointer, const), argument in zip(entries, arguments, strict=True):
        name = argument.called
        assert (argument.type, argument.pointer, argument.output) == (kind, pointer, pointer and not const)
        assert name.isidentifier() and name.islower() and not keyword.iskeyword(name) and not hasattr(builtins, name)
        assert re.fullmatch(r"[A-Za-z]\w*", argument.name)
        assert argument.name not in {"template", "stream", "i", "float"}


def test_argument_of_an_unknown_type_is_refused():
    with pytest.raises(UsageError, match=r"def\.py: 'x' is of type 'quad'; there are float, double"):
        of_problem("def.py", [{"name": "x", "type": "quad", "pointer": True, "const": True}])
