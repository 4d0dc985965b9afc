"""Prometheus and readers of Parquet, the programs themselves, on what `kv export` writes and docs/how-to advise."""

import contextlib
import functools
import http.server
import io
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kernel_velocity.__main__ import main
from kernel_velocity.past import frames, past
from tests import foreign_tree
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "prometheus.md"
READERS = ROOT / ".asv" / "parquet"  # duckdb and pyarrow, which others must not see: pandas stores text by pyarrow then
SLOWER = 1.2
prometheus = pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on PATH (Debian: prometheus)")
TIMES = "kernel_velocity_time_seconds"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return foreign_tree.build(tmp_path_factory.mktemp("foreign"))


def export(tree, *arguments):
    err = io.StringIO()
    folders = [f"--results={tree.results}", f"--repository={tree.repository}"]
    assert main(["export", *map(str, arguments), *folders], io.StringIO(), err) == 0, err.getvalue()


def yaml_of_the_page(name):
    return re.search(rf"```yaml\n# {name}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]


def run(folder, *command):
    result = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stdout + result.stderr


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(folder):
    """Serve a folder as `python -m http.server` does. Yield the port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextlib.contextmanager
def database(folder):
    """Run Prometheus on prometheus.yml and data/ of a folder. Yield a function that asks it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--storage.tsdb.retention.time=20y"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", *options, f"--web.listen-address={address}"], cwd=folder, stdout=log, stderr=log
        )

    def ask(query, when=None):
        """Return the values that a query has, by the labels of ours."""
        parameters = {"query": query} | ({} if when is None else {"time": when})
        url = f"http://{address}/api/v1/query?{urllib.parse.urlencode(parameters)}"
        answer = json.loads(urllib.request.urlopen(url, timeout=PATIENCE).read())["data"]["result"]
        labels = (*frames.LABELS, "unit", "alertname")
        return {
            tuple(sample["metric"].get(name, "") for name in labels): float(sample["value"][1]) for sample in answer
        }

    def answer(query, count, when=None):
        """Ask until so many values are there."""
        until = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(urllib.error.URLError):
                if len(values := ask(query, when)) == count:
                    return values
            assert process.poll() is None and time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.2)

    try:
        yield answer
    finally:
        process.kill()
        process.wait()


@prometheus
def test_prometheus_has_scraped_values_beside_their_history(tree, tmp_path):
    export(tree, "--openmetrics", tmp_path / "values.prom")
    export(tree, "--openmetrics", tmp_path / "history.prom", "--history")
    for command in re.findall(r"^promtool .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        run(tmp_path, *command.split())
    (tmp_path / "kernels.yml").write_text(yaml_of_the_page("kernels.yml"))
    with served(tmp_path) as port:
        settings = yaml_of_the_page("prometheus.yml").replace("9464", str(port)).replace(": 1m", ": 1s")
        (tmp_path / "prometheus.yml").write_text(settings)
        with database(tmp_path) as answer:
            opened = past.open(tree.results, tree.repository)
            columns = {key: opened.columns(key) for key in opened.keys}
            for names, unit in ((TIMES, "seconds"), ("kernel_velocity_memory_bytes", "bytes")):
                wanted = {
                    (*(getattr(key, name) for name in frames.LABELS), "", ""): series.seconds[-1]
                    for key, series in columns.items()
                    if series.unit == unit
                }
                assert answer(names, len(wanted)) == wanted
            third = opened.commits[opened.line[3]].date.timestamp()
            wanted = {
                (*(getattr(key, name) for name in frames.LABELS), "", ""): series.seconds[3]
                for key, series in columns.items()
                if series.unit == "seconds" and math.isfinite(series.seconds[3])
            }
            assert len(wanted) == 12  # two of the fourteen failed there, and have no value
            assert answer(TIMES, 12, third) == wanted
            assert answer('{__name__=~"kernel_velocity.*"}', 19) and not answer("ALERTS", 0)


@prometheus
def test_alerts_of_the_page_tell_a_slower_kernel(tmp_path):
    (tmp_path / "kernels.yml").write_text(yaml_of_the_page("kernels.yml"))
    days = 24 * 12  # samples, one in five minutes
    series = f'{TIMES}{{benchmark="add.Cpu.time_hot",implementation="native",case="float32-1M",machine="box"}}'
    labels = {"benchmark": "add.Cpu.time_hot", "implementation": "native", "case": "float32-1M", "machine": "box"}
    summary = "add.Cpu.time_hot native float32-1M on box: 1.2s, more than 5% above its median of two weeks"
    alert = {"exp_labels": labels, "exp_annotations": {"summary": summary}}
    tests = [  # JSON is YAML, too
        {
            "interval": "5m",
            "input_series": [{"series": series, "values": f"1+0x{20 * days} {SLOWER}+0x{days} 1+0x{days}"}],
            "alert_rule_test": [
                {"eval_time": "19d", "alertname": "KernelSlower", "exp_alerts": []},
                {"eval_time": "490h", "alertname": "KernelSlower", "exp_alerts": [alert]},
                {"eval_time": "510h", "alertname": "KernelSlower", "exp_alerts": []},
                {"eval_time": "510h", "alertname": "KernelsUnknown", "exp_alerts": []},
                {"eval_time": "540h", "alertname": "KernelsUnknown", "exp_alerts": [UNKNOWN]},
            ],
        }
    ]
    document = {"rule_files": ["kernels.yml"], "evaluation_interval": "1h", "tests": tests}
    (tmp_path / "tests.yml").write_text(json.dumps(document))
    run(tmp_path, "promtool", "test", "rules", "tests.yml")


UNKNOWN = {"exp_annotations": {"summary": "no value of any kernel: is values.prom there?"}}


def test_history_is_what_other_readers_of_openmetrics_take(tree, tmp_path):
    path = tmp_path / "history.prom"
    export(tree, "--openmetrics", path, "--history")
    families = list(text_string_to_metric_families(path.read_text(encoding="utf-8")))
    samples = [sample for family in families for sample in family.samples]
    opened = past.open(tree.results, tree.repository)
    values = frames.values(opened)["value"]
    assert sorted(sample.value for sample in samples) == sorted(values[np.isfinite(values)])
    assert {float(sample.timestamp) for sample in samples} == {
        opened.commits[sha].date.timestamp() for sha in opened.line
    }


def test_history_is_an_option_of_openmetrics_alone(tmp_path):
    err, path = io.StringIO(), tmp_path / "values.csv"
    assert main(["export", "--csv", str(path), "--history"], io.StringIO(), err) == 2
    assert err.getvalue() == "error: --history: is for --openmetrics, got --csv, which has every value without it\n"
    assert not path.exists()


READ = """
import json, sys
import duckdb, pandas, polars, pyarrow.parquet
path = sys.argv[1]
by_pandas, by_polars = pandas.read_parquet(path), polars.read_parquet(path)
by_pyarrow = pyarrow.parquet.read_table(path)
(median, known, rows), = duckdb.sql(f"SELECT median(value), count(value), count(*) FROM '{path}'").fetchall()
import pyarrow.compute as pc
print(json.dumps({
    "duckdb": [median, known, rows],
    "pandas": [by_pandas["value"].median(), int(by_pandas["value"].count()), len(by_pandas)],
    "polars": [by_polars["value"].median(), by_polars["value"].count(), len(by_polars)],
    "pyarrow": [by_pyarrow["value"].to_pandas().median(), pc.count(by_pyarrow["value"]).as_py(), len(by_pyarrow)],
    "nan": pc.sum(pc.is_nan(by_pyarrow["value"])).as_py(),
    "types": {name: str(by_pyarrow.schema.field(name).type) for name in ("value", "date", "kernel")},
}))
"""
WRITE = """
import sys
from pathlib import Path
from kernel_velocity.past import frames, past
results, repository, target = map(Path, sys.argv[1:])
opened = past.open(results, repository)
target.write_bytes(frames.parquet(frames.values(opened), "pandas"))
"""


@pytest.mark.skipif(not (READERS / "duckdb").is_dir(), reason=f"no duckdb and pyarrow in {READERS}")
@pytest.mark.parametrize("backend", ["polars", "pandas"])
def test_four_readers_of_parquet_have_one_answer(tree, tmp_path, backend):
    path = tmp_path / "values.parquet"

    def python(code, *arguments):
        paths = ":".join(map(str, (READERS, ROOT / "tools")))
        return subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": paths},
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        ).stdout

    if backend == "polars":
        export(tree, "--parquet", path)
    else:
        python(WRITE, tree.results, tree.repository, path)
    answers = json.loads(python(READ, path))
    values = pl.read_parquet(path)["value"]
    assert values.null_count() == 2 and answers["nan"] == 0
    wanted = [values.median(), len(values) - 2, len(values)]
    assert {name: answers[name] for name in ("duckdb", "pandas", "polars", "pyarrow")} == dict.fromkeys(
        ("duckdb", "pandas", "polars", "pyarrow"), wanted
    )
    assert answers["types"]["value"] == "double" and answers["types"]["date"] == "timestamp[us, tz=UTC]"
