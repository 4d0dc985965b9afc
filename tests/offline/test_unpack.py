"""What a node measured comes home: everything has its place, and nothing is put there twice."""

import json

from asv.results import iter_results

from kernel_velocity.results.lines import append_session, read_sessions
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.site import report
from tests import synthetic
from tests.offline import node
from tests.offline.unpacking import change, lines, packed_after, results_path, run


def test_everything_has_its_place(home, tar):
    status, out, err = run(home, tar)
    assert (status, err) == (0, "")
    for index in (0, 1):
        path = results_path(home, index)
        assert json.loads(path.read_text())["params"] == {"machine": "h200", "torch": "2.13.0"}
        assert len(lines(home, index)) == 64
        assert f"{path.name}: 8 series taken, 0 kept as they are here" in out
    assert json.loads((home.results / "h200" / "machine.json").read_text()) == {
        **synthetic.machine_json("h200"),
        "arch": "x86_64",
    }
    assert json.loads((home.results / "benchmarks.json").read_text()) == synthetic.benchmarks_json()
    folder = home.results / "h200" / "runs" / node.STAMP
    kept = {path.name: path.read_text() for path in folder.iterdir()}
    assert kept.pop("manifest.jsonl") == node.manifest(home.commits).to_json()
    assert kept == {
        "summary.md": "# What is believable\n",
        "node.jsonl": '{"gpus": ["Imaginary H200"]}\n',
        "tests.json.txt": '{"passed": 3',
        "tests.log": "3 passed\n",
    }
    assert (home.root / ".asv/traces/h200" / node.STAMP / "hot.json").read_text() == "[1e-3]"
    assert (home.root / ".asv/logs/h200" / node.STAMP / "track.log").read_text() == "measured\n"
    assert not list((home.root / ".asv").glob("unpack-*"))
    assert "Next: kv report\n      git add -f " in out


def test_what_the_sessions_of_both_sides_found_is_kept(tmp_path, home):
    there = SessionFacts(began=200.0, facts={"driver": "560"}, code={"matmul": "b"})
    here = SessionFacts(began=100.0, facts={"driver": "550"}, code={"matmul": "a"})

    def edit(folder):
        for path in (folder / "results").glob("*/*-*.json"):
            append_session(path, there)

    run(home, packed_after(tmp_path, home, lambda folder: None, "plain.tar.xz"))
    append_session(results_path(home, 0), here)
    path = results_path(home, 0)
    change(path, field="result", to=lambda values: [None for _ in values])  # so that the tar has something to give
    assert run(home, packed_after(tmp_path, home, edit))[0] == 0
    assert read_sessions(path, []) == (here, there)


def test_asv_finds_exactly_the_results(home, tar):
    run(home, tar)
    found = [(item.commit_hash, item.params["machine"]) for item in iter_results(str(home.results))]
    assert sorted(found) == sorted((commit, "h200") for commit in home.commits[:2])
    below = [path for path in (home.results / "h200").rglob("*.json") if path.name != "machine.json"]
    assert len(below) == 2


def test_the_site_shows_the_machine(home, tar, tmp_path):
    run(home, tar)
    summary = report.write_site(results=home.results, repository=home.root, out=tmp_path / "site")
    assert summary.notes == ()
    assert summary.commits == 2
    text = (tmp_path / "site" / "index.html").read_text()
    assert "h200" in text and ">node<" not in text


def test_another_run_of_the_same_second_has_its_own_folder(tmp_path, home, tar):
    run(home, tar)
    run(home, node.tar(tmp_path, home.commits, node={"gpus": [], "note": "another"}))
    assert sorted(path.name for path in (home.results / "h200" / "runs").iterdir()) == [node.STAMP, f"{node.STAMP}-2"]


def test_no_file_of_a_run_takes_the_place_of_another(tmp_path, home):
    def edit(folder):
        (folder / "run" / "node.jsonl").write_text("{}\n")
        (folder / "run" / "manifest.json").write_text("{}")

    tar = packed_after(tmp_path, home, edit)
    for _ in range(2):
        run(home, tar)
        (folder,) = (home.results / "h200" / "runs").iterdir()
        assert (folder / "manifest.jsonl").read_text() == node.manifest(home.commits).to_json()
        assert (folder / "node.jsonl").read_text() == "{}\n"
        assert json.loads((folder / "node.json.txt").read_text()) == {"gpus": [node.GPU]}
