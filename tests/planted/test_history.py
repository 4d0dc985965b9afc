"""What the planted history says of its commits is what git finds in them. Nothing is compiled here."""

import io
import itertools
import json
import subprocess
from dataclasses import asdict

import pytest

from tests.planted import edits, history
from tests.planted.history import HERE, MATMUL, Kind, Verdict

MATMUL_ITSELF = (HERE / MATMUL).read_text(encoding="utf-8")


def git(folder, *args):
    return subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted") / "repository"
    return folder, history.make(folder)


@pytest.fixture(scope="module")
def innocent(tmp_path_factory):
    folder = tmp_path_factory.mktemp("innocent")
    return folder, history.make(folder, changes=False)


def source(folder, commit):
    return git(folder, "show", f"{commit}:{MATMUL}")


def of(manifest, kind):
    return [item for item in manifest if item.kind is kind]


@pytest.mark.parametrize("variant", ["planted", "innocent"])
def test_the_manifest_is_the_log(variant, request):
    folder, manifest = request.getfixturevalue(variant)
    log = git(folder, "log", "--reverse", "--first-parent", "--format=%H %s", "main").splitlines()
    assert log == [f"{item.commit} {item.subject}" for item in manifest]
    assert 12 <= len(log) <= 16
    assert not git(folder, "status", "--porcelain")
    dates = git(folder, "log", "--reverse", "--format=%at", "main").split()
    assert sorted(set(dates)) == dates  # asv orders by them


@pytest.mark.parametrize("variant", ["planted", "innocent"])
def test_each_commit_touches_what_it_says_and_no_more(variant, request):
    folder, manifest = request.getfixturevalue(variant)
    for item in manifest[1:]:
        (touched,) = git(folder, "diff", "--name-only", f"{item.commit}~", item.commit).splitlines()
        assert touched == item.path
        assert (item.kind is Kind.DOCUMENTATION) == (not touched.startswith("kernels/"))


def test_everything_that_must_be_told_apart_is_planted(planted):
    _, manifest = planted
    verdicts = [item.verdict for item in manifest]
    assert [round(item.factor, 2) for item in of(manifest, Kind.SLOWER)] == [1.03, 1.10]
    assert verdicts.count(Verdict.REGRESSION) == 2
    assert verdicts.count(Verdict.IMPROVEMENT) == len(of(manifest, Kind.FASTER)) == 1
    assert verdicts.count(Verdict.BUILD_FAILED) == verdicts.count(Verdict.BENCHMARK_FAILED) == 1
    assert len(of(manifest, Kind.DOCUMENTATION)) >= 2
    assert of(manifest, Kind.SAME_CODE)
    assert {item.path for item in of(manifest, Kind.SAME_SPEED)} == {MATMUL, history.QUANTIZE_PYTHON}
    guilty = [place for place, item in enumerate(manifest) if item.verdict is not Verdict.CLEAN]
    assert all(later - earlier > 1 for earlier, later in itertools.pairwise(guilty))  # innocent ones between


def test_without_changes_nobody_is_guilty(planted, innocent):
    pairs = list(zip(planted[1], innocent[1], strict=True))
    assert [item.subject for _, item in pairs] == [item.subject for item, _ in pairs]
    for guilty, item in pairs:
        assert (item.factor, item.verdict) == (1.0, Verdict.CLEAN)
        assert item.kind is (guilty.kind if guilty.kind in history.INNOCENT else Kind.SAME_SPEED)
    assert source(innocent[0], "main").count("share = 37;") == 1


def test_a_change_of_speed_is_one_number(planted):
    folder, manifest = planted
    for item in (*of(manifest, Kind.SLOWER), *of(manifest, Kind.FASTER)):
        removed, added = git(folder, "diff", "-U0", f"{item.commit}~", item.commit).splitlines()[-2:]
        before, after = (int(line.split("share = ")[1].split(";")[0]) for line in (removed, added))
        assert (removed[0], added[0]) == ("-", "+")
        assert item.factor == edits.factor(before, after)
        assert (after > before) == (item.verdict is Verdict.REGRESSION)


def test_what_is_mended_is_as_it_was_before(planted):
    folder, manifest = planted
    places = [place for place, item in enumerate(manifest) if item.kind is Kind.MENDED]
    assert [manifest[place - 1].kind for place in places] == [Kind.UNBUILDABLE, Kind.WRONG]
    for place in places:
        assert source(folder, manifest[place].commit) == source(folder, manifest[place - 2].commit)


def test_the_repository_is_small_and_whole(planted):
    folder, _ = planted
    files = git(folder, "ls-files").splitlines()
    kernels = {name.split("/")[1] for name in files if name.startswith("kernels/") and name.count("/") > 1}
    assert kernels == {*history.KERNELS, "_native"}
    assert not [name for name in files if name.endswith(".cu")]
    assert {"benchmarks/device.py", "asv.conf.json"} <= set(files)
    assert "benchmarks/add_mul_exp.py" not in files
    assert 'kv_setting(KV_CUDA "OFF"' in (folder / "CMakeLists.txt").read_text()


@pytest.mark.slow
def test_the_same_tree_gives_the_same_commits(planted, tmp_path):
    out = io.StringIO()
    assert history.main([str(tmp_path / "again")], out) == 0
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [asdict(item) for item in planted[1]]


def test_a_folder_in_use_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as stopped:
        history.main([str(tmp_path)], io.StringIO())
    assert stopped.value.code == 2
    assert capsys.readouterr().err == (
        f"error: {tmp_path} is not empty: name a folder that is, or that does not exist\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("old", ["// Adds one tile", "multiply_panels(a, b, depth, sums);"])
def test_edits_that_do_not_fit_the_kernel_say_so(old):
    with pytest.raises(edits.AnchorError, match=r"wanted once .* found 0 times"):
        edits.planted(MATMUL_ITSELF.replace(old, ""), 1)


@pytest.mark.parametrize("edit", [edits.with_wider_blocks, edits.renamed, edits.unbuildable, edits.wrong])
def test_edits_of_another_text_are_refused(edit):
    assert edit(MATMUL_ITSELF) != MATMUL_ITSELF
    with pytest.raises(edits.AnchorError):
        edit("int main() {}")
