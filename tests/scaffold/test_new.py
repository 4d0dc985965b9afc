"""`kv new`: the files compile, are formatted, typed and measured. Errors name what is wrong."""

import shutil
import subprocess
import sys

import pytest

from kernel_velocity.errors import UsageError
from kernel_velocity.scaffold import new
from kernel_velocity.suite import config
from tests.challenge_files import CHALLENGE
from tests.commands import kv
from tests.scaffold import generating
from tests.scaffold.generating import tool


def run(*argv):
    return kv("new", *argv)


@pytest.fixture
def repository(tmp_path):
    """A folder that looks like the repository to `new`."""
    (tmp_path / "asv.conf.json").write_text("{}")
    for folder in ("kernels/_native", "benchmarks", "tests/kernels"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def test_problem_is_discovered_and_its_reference_right(tmp_path):
    """The tools look at the files in test_new_public.py."""
    pytest.importorskip("torch", reason="references are PyTorch's")
    root = generating.repository(tmp_path)
    assert run("my_op", "--root", root)[0] == 0
    script = (
        "from pathlib import Path\n"
        "from kernel_velocity.suite import config\n"
        "(problem,) = config.suite(Path()).problems()\n"
        "for problem in (problem,):\n"
        "    for device in ('cpu', 'cuda'):\n"
        "        problem.device = device\n"
        "        names = [case['name'] for case in problem.generate_test_cases()]\n"
        "        assert names == list(problem.cases[device])\n"
        "        assert set(problem.cold[device]) < set(names) and len(set(problem.core[device])) == 2\n"
        "        assert set(problem.core[device]) <= set(names)\n"
        "    problem.device = 'cpu'\n"
        "    inputs = problem.inputs_of('float32-5')\n"
        "    output = problem.reference_solution(*inputs)\n"
        "    assert output.shape == (5,) == problem.empty_output(inputs).shape\n"
        "    assert problem.verify_result(problem.expected(*inputs), output)[0]\n"
        "    output.view(-1)[-1] += 1\n"
        "    assert not problem.verify_result(problem.expected(*inputs), output)[0], problem.name\n"
        "    assert problem.get_bytes({'name': 'float32-5'}) == 40\n"
    )
    tool(root, sys.executable, "-W", "error", "-c", script)


def test_files_are_named(repository):
    status, out, err = run("my_op", "--root", repository)
    assert (status, err) == (0, "")
    wanted = ["benchmarks/my_op.py", "kernels/my_op/__init__.py", "kernels/my_op/my_op.cpp", "kernels/my_op/my_op.cu"]
    wanted += ["tests/kernels/test_my_op.py"]
    *names, last = out.splitlines()
    assert names == wanted
    assert last.startswith("Now say what it computes (benchmarks/my_op.py)")
    result = {path.relative_to(repository).as_posix() for path in repository.rglob("*") if path.is_file()}
    assert result == {*wanted, "asv.conf.json"}


def test_formatter_that_fails_is_named(repository, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/bin/false")
    with pytest.raises(UsageError, match="ruff failed on"):
        new.vector_files(repository, "my_op")


def test_signature_of_a_problem(repository, tmp_path):
    pytest.importorskip("torch", reason="the definition imports torch")
    path = tmp_path / "def.py"
    path.write_text(CHALLENGE)
    assert run("leaky_relu", "--problem", path, "--root", repository)[0] == 0
    text = " ".join((repository / "kernels/leaky_relu/leaky_relu.cpp").read_text().split())
    assert "(const float* input, float* output, float alpha, size_t n, size_t m, int threads)" in text.replace(
        "out,", "output,"
    )


NAMED = 'name = "fast-ops"\n'
PYPROJECT = f"""[build-system]
requires = []
build-backend = "setuptools.build_meta"

[project]
{NAMED}
[tool.other]
build = "theirs"

[tool.kernel-velocity]
build = "pip wheel -w {{out}} ." # comment
built-from = ["src"]
"""


def other_repository(folder, files, section=""):
    """Return a git repository of files, with a suite in `perf`."""
    named = {"asv.conf.json": '{"benchmark_dir": "perf"}', "perf/__init__.py": "", **files}
    for name, text in {**named, **({"kernel-velocity.toml": section} if section else {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for command in (("init", "-q"), ("add", "-A")):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize(
    ("section", "before"),
    [
        (
            '# ours\nbuild = "make \\"{out}\\""\nbuilt-from = ["a",\n  "b"]\n\n[kernels.x]\nsources = ["x.c"]\n',
            'make "{out}" && ',
        ),
        ("build = 'make {out}'  # all\n", "make {out} && "),
        ('# build: none, the files of built-from are copied\nbuilt-from = ["src"]\n', "cp -R -- src {out}/ && "),
        ("", ""),
    ],
)
def test_other_repository_gets_a_library_and_its_build(tmp_path, section, before):
    root = other_repository(tmp_path, {"src/a.c": ""}, section)
    status, out, err = run("my_op", "--root", root)
    assert (status, err) == (0, "")
    assert out.splitlines()[:4] == ["perf/my_op.py", "kernels/my_op.cpp", "kernels/my_op.cu", "kernel-velocity.toml"]
    text = (root / "perf/my_op.py").read_text()
    assert 'native = kv.native("my_op.so", "void my_op(const float* x, float* out, size_t n)")' in text
    assert "my_op_cuda.so" in text and "kernels" not in text and "harness" not in text
    assert "kv.h" not in (root / "kernels/my_op.cpp").read_text()
    project = config.project(root)
    assert project.build.startswith(f"{before}if test -f kernels/my_op.cpp; then c++ ")
    assert not project.built_from or project.built_from[-1] == "kernels"
    assert project.sources_of("my_op") == ("kernels/my_op.cpp", "kernels/my_op.cu")
    assert all(words in (root / "kernel-velocity.toml").read_text() for words in ("# ours", "x.c") if words in section)
    assert run("another", "--root", root)[0] == 0
    assert config.project(root).build.startswith(project.build + " && if test -f kernels/another.cpp")


def test_build_in_two_lines_is_left_alone(tmp_path):
    section = 'build = """make &&\ncp x {out}/"""\n'
    root = other_repository(tmp_path, {"a.c": ""}, section)
    out = run("my_op", "--root", root)[1]
    assert "note: kernel-velocity.toml is left as it is; to have the kernel built, write build = " in out
    assert (root / "kernel-velocity.toml").read_text() == section


@pytest.mark.parametrize("ends", [("\r\n", "\r\n"), ("\r\n", "\n")])
def test_line_ends_of_the_section_stay(tmp_path, ends):
    root = other_repository(tmp_path, {"a.c": ""}, "x")
    section = "# ours".join(("build = 'make {out}'" + ends[0], ends[1]))
    (root / "kernel-velocity.toml").write_bytes(section.encode())
    assert run("my_op", "--root", root)[0] == 0
    text = (root / "kernel-velocity.toml").read_bytes().decode()
    if ends[0] == ends[1]:
        assert text.count("\n") == text.count("\r\n") > 2 and "if test -f kernels/my_op.cpp" in text
    else:  # of two kinds: left alone, and a note says what to write
        assert text == section


def test_python_distribution_gets_a_function_of_its_package(tmp_path):
    root = other_repository(tmp_path, {"pyproject.toml": PYPROJECT, "src/fast_ops/__init__.py": ""})
    out = run("my_op", "--root", root)[1]
    assert out.splitlines()[0] == "perf/my_op.py" and out.count("\n") == 2
    assert "from fast_ops import my_op\n" in (root / "perf/my_op.py").read_text()
    assert (root / "pyproject.toml").read_text() == PYPROJECT


def test_python_distribution_with_c_code_gets_a_library(tmp_path):
    root = other_repository(tmp_path, {"pyproject.toml": PYPROJECT, "src/fast_ops/x.cpp": ""})
    assert "pyproject.toml" in run("my_op", "--root", root)[1].splitlines()
    assert NAMED in (root / "pyproject.toml").read_text()
    assert config.project(root).build.startswith("pip wheel -w {out} . && if test -f kernels/my_op.cpp")


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_written_build_makes_the_library(tmp_path):
    section = '# build: none, the files of built-from are copied\nbuilt-from = ["src"]\n'
    root = other_repository(tmp_path, {"src/a.py": ""}, section)
    run("my_op", "--root", root)
    (root / "kernels/my_op.cu").unlink()
    for source, made in (("kernels/my_op.cpp", "my_op.so"), ("kernels/renamed.cpp", "no-my_op")):  # an older commit
        (root / "kernels/my_op.cpp").rename(root / source)
        (out := root / made.replace(".", "_out")).mkdir()
        subprocess.run(config.project(root).build_command(out), shell=True, cwd=root, check=True)
        assert sorted(path.name for path in out.iterdir()) == sorted([made, "src"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("my-op", "cannot be a kernel's name"),
        ("../evil", "cannot be a kernel's name"),
        ("a" * 25, "24 at most"),
        ("match", "is Python's own name"),
        ("device", "series of that name are the machine's ceilings"),
        ("cpu_", "like one of the suite's own"),
        ("cpu_isa", "kernels.cpu_isa is a function"),
        ("test_op", "would be taken for a test"),
    ],
)
def test_name_that_cannot_be(repository, name, words):
    status, out, err = run(name, "--root", repository)
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and words in err
    assert not [path for path in repository.rglob("*") if path.is_file() and path.name != "asv.conf.json"]


@pytest.mark.parametrize("existing", ["kernels/my_op/my_op.cu", "benchmarks/my_op.py", "tests/kernels/test_my_op.py"])
def test_existing_files_stay_as_they_are(repository, existing):
    path = repository / existing
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    before = sorted(repository.rglob("*"))
    status, out, err = run("my_op", "--root", repository)
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert "exists; remove it, or call the kernel something else" in err
    assert sorted(repository.rglob("*")) == before and path.read_text() == "mine"


@pytest.mark.parametrize("last", [1, 5])
def test_all_files_are_written_or_none(repository, monkeypatch, last):
    before = sorted(repository.rglob("*"))
    real, count = new.replace_text, []

    def full_disk(path, text):
        count.append(path)
        if len(count) == last:
            raise OSError(28, "No space left on device")
        real(path, text)

    monkeypatch.setattr(new, "replace_text", full_disk)
    status, out, err = run("my_op", "--root", repository)
    assert (status, out) == (2, "") and "No space left on device" in err
    assert sorted(repository.rglob("*")) == before


def test_folder_without_a_configuration(tmp_path_factory):
    status, _, err = run("my_op", "--root", tmp_path_factory.mktemp("empty"))
    assert status == 2 and "no asv.conf.json here" in err
