"""TOPS of integer products: what is counted, what is n/a and why, and a real product where PyTorch has one."""

import time

import pytest

pytest.importorskip("torch")

from kernel_velocity.compare import integer_products
from kernel_velocity.compare.integer_products import IntegerProduct, measure, operations
from kernel_velocity.results.measurement import Interval
from kernel_velocity.tables import aligned


def sleeping(seconds_of):
    return lambda _device, dtype, size: lambda: time.sleep(seconds_of(size)) if dtype == "int8" else None


def test_a_product_is_two_operations_for_each_of_n_cubed():
    assert operations(1024) == 2_147_483_648
    found = IntegerProduct(size=1000, seconds=2e-3, interval=Interval(low=1e-3, high=4e-3, method=""))
    assert found.rate == pytest.approx(1e12)
    assert found.rate_bounds == (pytest.approx(0.5e12), pytest.approx(2e12))


def test_the_time_is_that_of_the_call(monkeypatch):
    monkeypatch.setattr(integer_products, "ROUND", 0.01)
    (found,) = measure("cpu", (8,), sleeping(lambda _: 5e-3))
    assert 5e-3 <= found.seconds < 20e-3
    assert found.interval.low <= found.seconds <= found.interval.high


def test_what_a_device_does_not_have_is_not_there_and_says_why():
    def refuse(_device, _dtype, size):
        raise RuntimeError(f"no int8 product of {size}\nmore lines")

    found = measure("cpu", (16, 8), refuse)
    assert [(each.size, each.why, each.rate) for each in found] == [
        (8, "no int8 product of 8", None),
        (16, "no int8 product of 16", None),
    ]


def test_a_missing_device_is_not_there(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = measure("cuda", (8,))
    assert found == (IntegerProduct(size=8, why="PyTorch sees no CUDA device"),)


def test_a_product_that_would_take_too_long_is_not_begun(monkeypatch):
    monkeypatch.setattr(integer_products, "ROUND", 0.002)
    monkeypatch.setattr(integer_products, "LONGEST", 0.5)
    begun = []

    def make(_device, _dtype, size):
        begun.append(size)
        return lambda: time.sleep(2e-3)

    found = measure("cpu", (8, 800), make)
    assert begun == [8]
    assert found[1].why.startswith("would take ")


def test_a_slow_call_is_timed_three_times(monkeypatch):
    monkeypatch.setattr(integer_products, "SLOW", 1e-3)
    calls = []
    integer_products.rounds(lambda: (calls.append(1), time.sleep(2e-3)), integer_products.plain("cpu"))
    assert len(integer_products.rounds(lambda: time.sleep(2e-3), integer_products.plain("cpu"))) == 3


def test_sizes_are_checked():
    with pytest.raises(ValueError, match="at least 1"):
        measure("cpu", (0,))


def test_the_table():
    found = (
        IntegerProduct(size=1024, seconds=1e-3, interval=Interval(low=0.9e-3, high=1.1e-3, method="")),
        IntegerProduct(size=2048, why="not here"),
    )
    lines = aligned(integer_products.table(found)).splitlines()
    assert lines[2].split("  ")[0] == "1024 x 1024 x 1024"
    assert "2.15 TOPS" in lines[2]
    assert "1.95 to 2.39 TOPS" in lines[2]
    assert "1.00 ms" in lines[2]
    assert "n/a" in lines[3]
    assert "not here" in lines[3]


def test_a_real_product_of_torch():
    found = measure("cpu", (64,))
    (each,) = found
    assert (each.rate is None) == bool(each.why)
    if each.rate is not None:
        assert 1e6 < each.rate < 1e15
