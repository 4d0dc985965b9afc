"""Block means of a round: what they are of, and where they are kept."""

import json
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.harness import blocks
from kernel_velocity.harness.sampling import BLOCKS, block_means
from kernel_velocity.harness.telemetry import Round

ROUND = Round(
    benchmark="matmul.Cpu.time_hot",
    params=("native", "float32-128x128x128"),
    time=1.0,
    estimate=1e-5,
    n=3,
    batch=1,
    spent=1e-4,
    stop="converged",
    method="0123abcd",
    launch="1a2b3f",
)
ASKED = {"KV_BLOCKS": "1", "ASV_ENV_NAME": "env", "ASV_COMMIT": "c" * 40}


@given(st.integers(1, 500))
def test_every_sample_is_in_one_block(n):
    means = block_means(range(n))
    assert len(means) == min(n, BLOCKS)
    sizes, begin = [], 0
    for mean in means:
        size = round(2 * (mean - begin)) + 1  # of consecutive whole numbers from begin on
        assert mean == fmean(range(begin, begin + size))
        sizes.append(size)
        begin += size
    assert begin == n
    assert max(sizes) - min(sizes) <= 1


def test_fewer_samples_than_blocks_are_kept_as_they_are():
    assert block_means([3.0, 1.0, 2.0]) == (3.0, 1.0, 2.0)


def kept(root):
    path = root / ".asv" / "blocks" / "env" / f"{'c' * 40}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else None


def test_block_means_are_a_line_per_round(tmp_path):
    for means in ([1.2345678e-5, 2e-5], [3e-5]):
        blocks.keep(ROUND, means, tmp_path, ASKED)
    identity = {"b": ROUND.benchmark, "p": ["native", "float32-128x128x128"], "l": "1a2b3f"}
    assert kept(tmp_path) == [{**identity, "seconds": [1.2346e-5, 2e-5]}, {**identity, "seconds": [3e-5]}]


@pytest.mark.parametrize("other", [{"KV_BLOCKS": ""}, {"KV_BLOCKS": "0"}, {"ASV_COMMIT": ""}, {"ASV_ENV_NAME": ""}])
def test_nothing_is_kept_unasked_or_without_a_commit(tmp_path, other):
    blocks.keep(ROUND, [1e-5], tmp_path, ASKED | other)
    blocks.keep(ROUND, [1e-5], tmp_path, {name: ASKED[name] for name in ASKED if name not in other})
    assert list(tmp_path.iterdir()) == []
