"""Which direction is better: the units and names that people use, and those of which nobody knows."""

import pytest

from kernel_velocity.direction import Better, better, is_worse

HIGHER = """
    x GFLOPS|x GFLOP/s|x TFLOPS|x TOPS|x GOps/s|x GB/s|x GiB/s|x B/s|x Gbit/s|x Mbps|x GB/s (effective)|x MB·s⁻¹|x s^-1
    x /s|x tokens/s|x tokens per second|x it/s|x images/sec|x req/s|x QPS|x fps|x kHz|x Hz|x IPC|x bytes/cycle
    x GFLOPS/W|x GFLOPS/core|x x|x ×|x speedup|x hit rate %|x % of peak|x percent of peak|x points (higher is better)
    hit_rate %|occupancy %|efficiency %|sm_efficiency fraction|throughput bytes|speedup_vs_runtime|memory_bandwidth
    gflops|throughput|bw|ipc|samples_per_second|items_per_second|MB_per_s|mb_s|gbps|percent_of_peak|accuracy
    throughput_per_gpu|mse_loss_gflops|host_to_device_bandwidth|HitRate|TokensPerSecond|GBPerSec|TFLOPs|GiBPerSecond
    bw/global/utilization
"""
LOWER = """
    x s|x ms|x µs|x usec|x min|x cycles|x ns/op|x s/iter|x ms per token|x cycles/byte|x B/op|x bytes|x B|x KiB|x J
    x errors|x misses/s|x points (lower is better)|slowdown x|overhead x|overhead %|miss_rate %|stall_pct %
    efficiency_loss %|latency|p99_latency|latency_s|elapsed_sec|runtime|time|size|binary_size|bytes
    peak_memory|peak_memory MB|error
    loss|spills unit|ns_per_op|bytes_per_op|cycles_per_byte|time_to_first_token
    rate_of_errors|LatencyP99|RuntimeMs|MissRate
"""
NEITHER = """
    x|x unit|x %|x widgets|x W|x FLOP/byte|count unit|threads threads|registers|compression_ratio|batch_size|gpu_time %
"""


def named(text):
    """Return names of track_ benchmarks with units."""
    return [
        tuple(part.strip().partition(" ")[::2]) for line in text.split("\n") for part in line.split("|") if part.strip()
    ]


@pytest.mark.parametrize(
    ("direction", "text"), [(Better.HIGHER, HIGHER), (Better.LOWER, LOWER), (Better.NEITHER, NEITHER)]
)
def test_unit_and_name_tell_the_direction(direction, text):
    wrong = [(name, unit) for name, unit in named(text) if better(f"k.track_{name}", unit) is not direction]
    assert not wrong


@pytest.mark.parametrize(
    ("benchmark", "direction"),
    [
        ("matmul.Cpu.time_hot", Better.LOWER),
        ("matmul.Cpu.track_max_error", Better.LOWER),
        ("matmul.Cuda.track_spill_bytes", Better.LOWER),
        ("matmul.Cpu.track_code_bytes", Better.NEITHER),
        ("matmul.Cuda.track_registers", Better.NEITHER),
        ("device.Cpu.track_l2_size", Better.NEITHER),
        ("device.Cpu.track_l2_bandwidth", Better.HIGHER),
        ("device.Cuda.track_peak_float32", Better.HIGHER),
        ("device.Cuda.track_launch_overhead", Better.LOWER),
        ("bench.Suite.time_throughput", Better.LOWER),  # asv's type comes before the name
        ("bench.Suite.mem_bandwidth", Better.LOWER),
        ("bench.PeakMemSpeed", Better.LOWER),
    ],
)
def test_name_alone_tells_the_direction(benchmark, direction):
    assert better(benchmark) is direction


def test_what_is_stated_comes_first():
    assert better("k.track_latency", "ms", stated=Better.HIGHER) is Better.HIGHER
    assert better("k.time_x", "seconds", "time", stated=Better.NEITHER) is Better.NEITHER
    assert [is_worse(direction, 0.1) for direction in (Better.LOWER, Better.HIGHER, Better.NEITHER)] == [
        True,
        False,
        None,
    ]
