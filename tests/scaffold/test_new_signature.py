"""The arguments of a kernel to be: read, sorted into their kinds, refused with the reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.errors import UsageError
from kernel_velocity.scaffold.signature import TYPES, from_problem, parse

SAMPLE = {"name": "x", "type": "float", "pointer": True, "const": True}


def names(items):
    return [item.name for item in items]


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


@given(
    st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=5),
    st.sampled_from(sorted(TYPES)),
    st.integers(1, 4),
)
def test_parameters_of_a_problem_say_the_same_as_text(inputs, output, sizes):
    parameters = [{**SAMPLE, "name": f"x{index}", "type": kind} for index, kind in enumerate(inputs)]
    parameters += [{"name": "out", "type": output, "pointer": True, "const": False}]
    parameters += [{"name": f"n{i}", "type": "size_t", "pointer": False, "const": False} for i in range(sizes)]
    text = ",".join(
        f"{item['name']}:{item['type']}{'*' if item['pointer'] else ''}{'!' if item['name'] == 'out' else ''}"
        for item in parameters
    )
    assert parse(text) == from_problem("file", parameters)


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
        ("stream:float*,o:float*!,n:size_t", "'stream': the generated code calls something else so"),
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


def test_problem_without_enough_parameters():
    with pytest.raises(UsageError, match=r"def\.py: the Problem has no `parameters`; say them: --parameters"):
        from_problem("def.py", [])
    with pytest.raises(UsageError, match=r"def\.py: `parameters` lacks 'const'; wanted name, type, pointer, const"):
        from_problem("def.py", [{"name": "x", "type": "float", "pointer": True}])
