"""The figures of the code that two builds differ by."""

from kernel_velocity.ab.code_changes import changes


def info(registers=168, spilled=0, avx2=900, architecture="sm_90"):
    said = {"architecture": architecture, "registers": registers, "shared_bytes": 0, "spill_load_bytes": 0}
    ptxas = [{**said, "spill_store_bytes": spilled}]
    return {"kernels": {"matmul": {"code_bytes": {"sse2": 1000, "avx2": avx2}, "ptxas": ptxas}}}


def test_what_differs_is_named_with_its_target():
    found = changes(info(), info(registers=128, spilled=16, avx2=950), ["matmul"])
    assert list(map(str, found)) == [
        "matmul avx2: 900 -> 950 bytes",
        "matmul sm_90: 168 -> 128 registers of a thread",
        "matmul sm_90: 0 -> 16 bytes spilled",
    ]
    assert [change.device for change in found] == ["cpu", "cuda", "cuda"]
    assert [change.spills_more for change in found] == [False, False, True]


def test_what_is_the_same_or_absent_on_one_side_is_no_change():
    assert changes(info(), info(), ["matmul"]) == ()
    assert changes({}, info(), ["matmul"]) == ()
    assert changes(info(), info(architecture="sm_80", registers=1), ["matmul"]) == ()
    assert changes(info(), info(registers=1), ["other"]) == ()
