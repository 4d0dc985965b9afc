"""What measuring processes append to the spool: whole lines, whoever writes beside them."""

import json
import threading

from kernel_velocity.harness.spool import append, append_failure, spool_path
from kernel_velocity.harness.telemetry import decode, encode
from tests.harness.test_telemetry import FULL


def test_lines_of_concurrent_writers_do_not_mix(tmp_path):
    path = spool_path(tmp_path, "env", "0" * 40)
    threads = [threading.Thread(target=lambda: [append(path, FULL) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [decode(line) for line in path.read_text().splitlines()] == [decode(encode(FULL))] * 200


def test_failures_are_one_short_line(tmp_path):
    path = tmp_path / "a" / "b.failures.jsonl"
    append_failure(
        path, benchmark="matmul.Cpu.time_hot", params=("native", "c"), when=1.0, error=ValueError("a\nb" + "x" * 9999)
    )
    (line,) = path.read_text().splitlines()
    said = json.loads(line)
    assert said["error"].startswith("ValueError: a b")
    assert len(said["error"]) == 500
    assert said["p"] == ["native", "c"]
