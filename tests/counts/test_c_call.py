"""The C function behind a bound call: its library, name, arguments, memory."""

import ctypes
import functools
import math

import pytest

from kernel_velocity.counts import c_call
from kernel_velocity.counts.c_call import NotCountedError
from tests.counts.counting import Memory, pointer

LIBC = ctypes.CDLL("libc.so.6")


def read(*arguments, function=LIBC.labs, inputs=(), outputs=()):
    return c_call.read(functools.partial(function, *arguments), inputs, outputs)


def test_library_name_and_result():
    function = LIBC.labs
    function.restype = None
    call = read()
    assert call.library.name.startswith("libc") and call.library.is_absolute()
    assert (call.symbol, call.result, call.arguments, call.memory) == ("labs", "void", (), b"")
    function.restype = ctypes.c_int
    assert read().result == "int" and read(function=LIBC.memset).symbol == "memset"  # one of several, chosen at load


@pytest.mark.parametrize(
    ("value", "argument"),
    [
        (ctypes.c_int(-1), ("int", "0xffffffffffffffffULL")),
        (ctypes.c_uint8(7), ("unsigned char", "0x7ULL")),
        (ctypes.c_bool(True), ("_Bool", "0x1ULL")),
        (ctypes.c_size_t(2**63), ("unsigned long", "0x8000000000000000ULL")),
        (ctypes.c_float(0.1), ("float", "0x1.99999a0000000p-4")),
        (ctypes.c_double(-math.inf), ("double", "-__builtin_inf()")),
        (ctypes.c_double(math.nan), ("double", '__builtin_nan("")')),
        (ctypes.c_void_p(None), ("void *", "0")),
    ],
)
def test_number_is_exact_in_c(value, argument):
    assert read(value).arguments == (argument,)


def test_pointers_are_found_among_inputs_and_outputs():
    x, y, out = Memory(100), Memory(64), Memory(8)
    ctypes.memset(x.data_ptr(), 3, 100)
    ctypes.memset(out.data_ptr(), 5, 8)
    call = read(pointer(out), pointer(x, 40), pointer(y), inputs=[x, 2.5, y], outputs=[out, x])
    assert [value for _, value in call.arguments] == ["memory + 192", "memory + 40", "memory + 128"]
    assert call.memory == bytes([3]) * 100 + bytes(28) + bytes(64) + bytes(64)  # outputs are 0, each begins at a line


def test_pointer_to_other_memory_is_refused():
    x, other = Memory(64), Memory(64)
    with pytest.raises(NotCountedError, match="argument 2 of labs points to memory that is no input and no output"):
        read(pointer(x), pointer(other), inputs=[x])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: 0, r"only C functions are counted: wanted kv\.native\(\.\.\.\), or .* \(got .*<lambda>\)"),
        (functools.partial(print, 1), r"got partial"),
        (functools.partial(LIBC.labs, 1.5), r"argument 1 of labs is no number and no pointer \(got float\)"),
        (functools.partial(LIBC.labs, ctypes.c_char_p(b"x")), r"argument 1 of labs is no number and no pointer"),
        (functools.partial(ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)), "only exported functions of libraries"),
    ],
)
def test_other_calls_are_refused(call, words):
    with pytest.raises(NotCountedError, match=words):
        c_call.read(call, (), ())
