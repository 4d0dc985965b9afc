from __future__ import annotations

import pytest

from tests.cuda_on_host.rewriting import RewritingError, rewrite


def rewritten(source: str) -> str:
    return rewrite(source, "a.cu").removeprefix('#line 1 "a.cu"\n')


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("k<<<1, 2>>>(x);", "cuda_on_host::Configuration(1, 2).of(k)(x);"),
        ("kv::k<<<f(n, 2), 2, 0, s>>>();", "cuda_on_host::Configuration(f(n, 2), 2, 0, s).of(kv::k)();"),
        ("return k<<<1, 2>>>(x);", "return cuda_on_host::Configuration(1, 2).of(k)(x);"),
        ("k<A<int>, 3><<<g, b>>>(x)", "cuda_on_host::Configuration(g, b).of(k<A<int>, 3>)(x)"),
        ("k<<<a >> 3, v[i >> 2]>>>\n(x)", "cuda_on_host::Configuration(a >> 3, v[i >> 2]).of(k)\n(x)"),
        ("a<<<1, 2>>>(x); b<<<3, 4>>>(y);", None),
        ("// k<<<1>>>\n/* asm */ f(\"<<<\", '<');", "// k<<<1>>>\n/* asm */ f(\"<<<\", '<');"),
        ("x << 3 >> y;", "x << 3 >> y;"),
        ("__shared__ float t;", "auto& t = cuda_on_host::shared<float, 1>([] {});"),
        (
            "__shared__ __align__(16) A::B<2, float> t[2][N + 1];",
            "auto& t = cuda_on_host::shared<A::B<2, float>[2][N + 1], 16>([] {});",
        ),
        ("__shared__ unsigned char t [4] ;", "auto& t = cuda_on_host::shared<unsigned char[4], 1>([] {});"),
        (
            "extern __shared__ T t[];",
            "T* const t = static_cast<T*>(cuda_on_host::dynamic_shared());",
        ),
    ],
)
def test_rewrite(source, wanted):
    if wanted is None:
        wanted = "cuda_on_host::Configuration(1, 2).of(a)(x); cuda_on_host::Configuration(3, 4).of(b)(y);"
    assert rewritten(source) == wanted


def test_line_numbers_are_kept():
    source = "a\n__shared__ float\n  t[2]\n;\nk<<<1,\n 2>>>(\nx);\nlast"
    assert rewritten(source).splitlines().index("last") == source.splitlines().index("last")


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("\n<<<1, 2>>>(x);", "a.cu:2: cannot read this launch"),
        ("k<<<1, 2>>>;", "a.cu:1: cannot read this launch"),
        ("k<<<1, 2);", "a.cu:1: cannot read this launch"),
        ("(*k)<<<1, 2>>>(x);", "a.cu:1: cannot read this launch"),
        ("\n\n__shared__ float x, y;", "a.cu:3: cannot rewrite '__shared__'"),
        ("__shared__ float x[];", "a.cu:1: dynamic shared memory is"),
        ("extern __shared__ float x[4];", "a.cu:1: dynamic shared memory is"),
        ('asm("mov");', "a.cu:1: cannot rewrite 'asm'"),
        ("__constant__ int x;", "a.cu:1: cannot rewrite '__constant__'"),
    ],
)
def test_unknown_syntax_is_refused(source, where):
    with pytest.raises(RewritingError, match=f"^{where}"):
        rewrite(source, "a.cu")
