"""The arguments of a kernel to be: read, sorted into their kinds, refused with the reason."""

import builtins
import keyword
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.errors import UsageError
from kernel_velocity.scaffold.signature import PUBLIC_TYPES, of_problem, parse, python_names


def names(params):
    return [param.name for param in params]


def test_kinds():
    signature = parse("A: float*, alpha:float, C:int8_t* !,m:size_t, k:int, B:float*, n:int, l:size_t")
    assert names(signature.inputs) == ["A", "B"]
    assert signature.output.name == "C"
    assert names(signature.sizes) == ["m", "n", "l"]  # an integer in front of the last pointer is a number
    assert names(signature.values) == ["alpha", "k"]
    assert names(signature.arguments) == ["A", "alpha", "k", "B"]


@pytest.mark.parametrize(("name", "python"), [("A", "a"), ("input", "input_"), ("Lambda", "lambda_"), ("x1", "x1")])
def test_names_in_python(name, python):
    assert parse(f"{name}:float*,out:float*!,n:size_t").inputs[0].python == python


WORDS = [
    "x",
    "X",
    "A",
    "a",
    "shape",
    "input",
    "stream",
    "template",
    "lambda",
    "i",
    "float",
    "out",
    "d_out",
    "sum",
    "2d",
    "é",
]


@given(st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(sorted(PUBLIC_TYPES)), st.booleans(), st.booleans())))
def test_argument_names_are_valid_in_both_languages(entries):
    keys = ("name", "type", "pointer", "const")
    parameters = of_problem("file", [dict(zip(keys, entry, strict=True)) for entry in entries])
    names = python_names(parameters)
    assert len(set(names)) == len({parameter.name for parameter in parameters}) == len(entries)
    for (_, kind, pointer, const), parameter, name in zip(entries, parameters, names, strict=True):
        assert (parameter.type, parameter.pointer, parameter.output) == (kind, pointer, pointer and not const)
        assert name.isidentifier() and name.islower() and not keyword.iskeyword(name) and not hasattr(builtins, name)
        assert re.fullmatch(r"[A-Za-z]\w*", parameter.name) and parameter.name not in {
            "template",
            "stream",
            "i",
            "float",
        }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot read ''; wanted name:type"),
        ("x float", "cannot read 'x float'"),
        ("x:float**,o:float*!,n:size_t", "cannot read 'x:float**'"),
        ("1x:float*,o:float*!,n:size_t", "'1x' is no name"),
        ("x_:float*,o:float*!,n:size_t", "'x_' is no name"),
        ("a_name_that_is_much_too_long:float*,o:float*!,n:size_t", "24 at most"),
        ("x:float*,x:float*,o:float*!,n:size_t", "two arguments are called 'x'"),
        ("a:float*,A:float*,o:float*!,n:size_t", "two arguments are called 'a'"),
        ("template:float*,o:float*!,n:size_t", "'template' is a keyword or a type"),
        ("float:float*,o:float*!,n:size_t", "'float' is a keyword or a type"),
        ("stream:float*,o:float*!,n:size_t", "'stream': the generated code uses this name"),
        ("out:float*,o:float*!,n:size_t", "'out': the generated"),
        ("x:float*,i:float*!,n:size_t", "'i': the generated"),
        ("x:complex*,o:float*!,n:size_t", "'x' is a pointer of type 'complex'; there are bfloat16, double"),
        ("x:float*,o:float*!,n:size_t,h:float16", "'h' is a number of type 'float16'"),
        ("x:size_t*,o:float*!,n:size_t", "'x' is a pointer of type 'size_t'"),
        ("x:float*,o:float!,n:size_t", "'o' is written, so it must be a pointer: o:float*!"),
        ("x:float*,n:size_t", "wanted one output (name:type*!), got none"),
        ("x:float*,o:float*!,p:float*!,n:size_t", "got o, p: the suite tracks kernels with one"),
        ("o:float*!,n:size_t", "no tensor that is read"),
        ("x:float*,o:float*!", "no size; wanted at least one size_t"),
    ],
)
def test_signature_that_cannot_be_a_kernel(text, words):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert str(caught.value).startswith("--parameters: ") and "\n" not in str(caught.value)


def test_argument_of_an_unknown_type_is_refused():
    with pytest.raises(UsageError, match=r"def\.py: 'x' is of type 'quad'; there are float, double"):
        of_problem("def.py", [{"name": "x", "type": "quad", "pointer": True, "const": True}])
