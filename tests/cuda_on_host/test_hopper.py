"""The engine's Hopper: a product by TMA and wgmma is right, and a kernel's fault of each kind is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cuda_on_host.calling import ORDERS, KernelError, Library, Memory, output

IN_ANY_ORDER = pytest.mark.parametrize("order", ORDERS)
K = 5 * 64


@pytest.fixture(scope="module")
def hopper(on_host) -> Library:
    return on_host.library(Path(__file__).parent / "hopper.cu")


def call(library: Library, name: str, order: str | int, rows: int = 64, n: int = 256, **how) -> tuple[int, bool]:
    """Call a kernel of hopper.cu with small integers. Return its status, and whether C is right."""
    random = np.random.default_rng(1)
    a, b = (random.integers(-8, 9, shape).astype(np.float16) for shape in ((rows, K), (K, n)))
    c = output((rows, n), np.float16)
    status = library.call(f"kv_{name}_cuda", Memory(a), Memory(b), c, rows, n, order=order, capability=9, **how)
    return status, np.array_equal(c.array, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


@IN_ANY_ORDER
@pytest.mark.parametrize(("rows", "n"), [(64, 256), (33, 200), (1, 136)])
def test_product_of_boxes(hopper, rows, n, order):
    assert call(hopper, "RIGHT", order, rows, n) == (0, True)


EARLY = (
    "to which an unawaited copy goes|which nobody wrote|reads byte [0-9]+ of shared memory, which a copy of TMA writes"
)
UNREAD = (
    "which products under way read|which warp [0-9]+ had read|to which an unawaited copy goes|"
    "writes byte [0-9]+ of shared memory, which a copy of TMA writes"
)
FAULTS = {
    "WRONG_PARITY": EARLY,
    "NO_WAIT_FOR_A_STAGE": EARLY,
    "STAGE_REUSED_UNSEEN": "arrives at a barrier at which all have arrived",
    "STAGE_RELEASED_EARLY": UNREAD,
    "RELEASED_BY_ONE_LANE": "which warp [0-9]+ had read",
    "RELEASED_IN_ONE_BLOCK": f"{UNREAD}|at which all have arrived|for ever",
    "TOO_FEW_BYTES": f"threads wait for others for ever|{EARLY}",
    "TOO_MANY_ARRIVALS": f"at which all have arrived|for ever|{UNREAD}",
    "BARRIERS_NOT_FENCED": "a barrier that no fence has published",
    "BARRIERS_NOT_SYNCED": "where no barrier was initialised|that another thread initialised",
    "NO_FENCE": "multiplies without a fence before",
    "NO_COMMIT": "touches registers that a product under way uses|products under way",
    "SUMS_READ_EARLY": f"touches registers that a product under way uses|{UNREAD}",
    "SUMS_CHANGED": "touches registers that a product under way uses",
    "UNFENCED_SUMS": "registers that were touched since the last fence",
    "STORE_NOT_FENCED": "stores byte [0-9]+ of shared memory, which a thread wrote that has made no fence since",
    "STORE_NOT_SYNCED": "which nobody wrote|a race",
    "STORE_OVERWRITTEN": "writes byte [0-9]+ of shared memory, which a store under way reads|a race: it reads",
    "STORE_LEFT": "leaves while a store reads its shared memory",
    "BLOCK_LEFT": "reaches into block [01] of its cluster, which has left",
    "WRONG_GROUPS": EARLY,
    "MISPLACED_BOX": "where no pattern of its swizzle begins",
}


@IN_ANY_ORDER
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_seen_in_any_order(hopper, name, order):
    with pytest.raises(KernelError, match=FAULTS[name]):
        call(hopper, name, order)


SIGNAL_FAULTS = {
    "SIGNAL_NOT_AWAITED": "a race: it reads",
    "SIGNAL_BEFORE_BARRIER": "a race: it reads",
    "SIGNAL_LEFT": "a signal was given that no cluster has taken",
    "SIGNAL_OF_LATER": "waits for a signal that no cluster before it gives",
}


@IN_ANY_ORDER
def test_signal_between_clusters(hopper, order):
    out = output((256,), np.float32)
    assert hopper.call("kv_SIGNALLED_cuda", out, order=order, capability=9) == 0
    assert np.array_equal(out.array, np.r_[np.roll(np.arange(128), -1), np.roll(np.arange(128, 256), -1)])
    for name, text in SIGNAL_FAULTS.items():
        with pytest.raises(KernelError, match=text):
            hopper.call(f"kv_{name}_cuda", output((256,), np.float32), order=order, capability=9)


@pytest.mark.parametrize("name", ["NO_SWIZZLE", "WRONG_STRIPE"])
def test_wrong_layout_gives_a_wrong_product(hopper, name):
    assert call(hopper, name, "forward") == (0, False)


def test_clusters_and_their_memory_need_capability_9(hopper):
    a = Memory(np.zeros((64, K), np.float16))
    b, c = Memory(np.zeros((K, 256), np.float16)), output((64, 256), np.float16)
    assert hopper.call("kv_RIGHT_cuda", a, b, c, 64, 256, capability=8) == 9
