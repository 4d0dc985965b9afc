"""The manifest of the planted history is what git finds in its commits. Nothing is compiled here."""

import io
import itertools
import json
import subprocess
from dataclasses import asdict

import pytest

from tests.planted import edits, history
from tests.planted.history import HERE, INNOCENT, MATMUL, Kind

MATMUL_ITSELF = (HERE / MATMUL).read_text(encoding="utf-8")


def git(folder, *args):
    return subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module", params=[True, False], ids=["planted", "innocent"])
def repository(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted") / "repository"
    return folder, history.make(folder, changes=request.param), request.param


def source(folder, commit):
    return git(folder, "show", f"{commit}:{MATMUL}")


def of(manifest, *kinds):
    return [commit for commit in manifest if commit.kind in kinds]


def test_manifest_is_the_log(repository):
    folder, manifest, _ = repository
    log = git(folder, "log", "--reverse", "--first-parent", "--format=%H %s", "main").splitlines()
    assert log == [f"{commit.commit} {commit.subject}" for commit in manifest]
    assert 12 <= len(log) <= 16
    assert not git(folder, "status", "--porcelain")
    dates = git(folder, "log", "--reverse", "--format=%at", "main").split()
    assert sorted(set(dates)) == dates  # asv orders by them
    for commit in manifest[1:]:
        (touched,) = git(folder, "diff", "--name-only", f"{commit.commit}~", commit.commit).splitlines()
        assert touched == commit.path
        assert (commit.kind is Kind.DOCUMENTATION) == (not touched.startswith("kernels/"))


def test_everything_that_must_be_told_apart_is_planted(repository):
    folder, manifest, has_changes = repository
    if not has_changes:
        assert {(commit.factor, commit.kind in INNOCENT) for commit in manifest} == {(1.0, True)}
        assert source(folder, "main").count("share = 37;") == 1
        return
    assert [round(commit.factor, 2) for commit in of(manifest, Kind.SLOWER)] == [1.03, 1.10]
    for kind, count in ((Kind.FASTER, 1), (Kind.UNBUILDABLE, 1), (Kind.WRONG, 1), (Kind.SAME_CODE, 1)):
        assert len(of(manifest, kind)) == count
    assert len(of(manifest, Kind.DOCUMENTATION)) >= 2
    assert {commit.path for commit in of(manifest, Kind.SAME_SPEED)} == {MATMUL, history.QUANTIZE_PYTHON}
    guilty = [index for index, commit in enumerate(manifest) if commit.kind not in (*INNOCENT, Kind.MENDED)]
    assert all(later - earlier > 1 for earlier, later in itertools.pairwise(guilty))  # innocent ones between
    for commit in of(manifest, Kind.SLOWER, Kind.FASTER):  # one number each
        removed, added = git(folder, "diff", "-U0", f"{commit.commit}~", commit.commit).splitlines()[-2:]
        before, after = (int(line.split("share = ")[1].split(";")[0]) for line in (removed, added))
        assert (removed[0], added[0], commit.factor) == ("-", "+", edits.factor(before, after))
        assert (after > before) == (commit.kind is Kind.SLOWER)
    mended = [index for index, commit in enumerate(manifest) if commit.kind is Kind.MENDED]
    assert [manifest[index - 1].kind for index in mended] == [Kind.UNBUILDABLE, Kind.WRONG]
    for position in mended:  # as it was before
        assert source(folder, manifest[position].commit) == source(folder, manifest[position - 2].commit)


def test_repository_is_small_and_whole(repository):
    folder, _, _ = repository
    files = git(folder, "ls-files").splitlines()
    kernels = {name.split("/")[1] for name in files if name.startswith("kernels/") and name.count("/") > 1}
    assert kernels == {*history.KERNELS, "_native"}
    assert not [name for name in files if name.endswith(".cu")]
    assert {"benchmarks/device.py", "asv.conf.json"} <= set(files)
    assert "benchmarks/add_mul_exp.py" not in files
    assert 'kv_setting(KV_CUDA "OFF"' in (folder / "CMakeLists.txt").read_text()


def test_same_tree_gives_the_same_commits_in_an_empty_folder(repository, tmp_path, capsys):
    _, manifest, has_changes = repository
    argv, out = [str(tmp_path / "again"), *([] if has_changes else ["--without-changes"])], io.StringIO()
    assert history.main(argv, out) == 0
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [asdict(commit) for commit in manifest]
    with pytest.raises(SystemExit) as stopped:
        history.main([str(tmp_path)], io.StringIO())
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path} is not empty: name a folder")
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


@pytest.mark.parametrize("edit", [edits.with_wider_blocks, edits.renamed, edits.unbuildable, edits.wrong])
def test_edit_of_another_text_is_refused(edit):
    assert edit(MATMUL_ITSELF) != MATMUL_ITSELF
    with pytest.raises(edits.AnchorError):
        edit("int main() {}")
    for anchor in ("// Adds one tile", "multiply_panels(a, b, depth, sums);"):
        with pytest.raises(edits.AnchorError, match=r"wanted once .* found 0 times"):
            edits.planted(MATMUL_ITSELF.replace(anchor, ""), 1)
