"""`kv init`: what it finds out about a repository, and that it changes nothing twice."""

import subprocess
import tomllib

import pytest

from kernel_velocity.suite import config
from tests.commands import git, kv

BACKEND = '[build-system]\nbuild-backend = "setuptools.build_meta"\n[project]\nname = "ops"\nversion = "1"\n'


@pytest.fixture
def repository(tmp_path):
    """Return a function that commits files in a new repository, and its folder."""

    def commit(**files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for args in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
            git(tmp_path, *args)
        return tmp_path

    return commit


def init(folder):
    return kv("init", "--root", folder)


@pytest.mark.parametrize(
    ("files", "build", "built_from"),
    [
        (
            {"Makefile": "CC ?= cc\nlibnorm.so: norm.c\n\tcc\n", "norm.c": "", "docs/x.py": "", "README.md": ""},
            "make libnorm.so && cp libnorm.so {out}/",
            ("Makefile", "norm.c"),
        ),
        (
            {"Makefile": "all:\n", "src/a.cu": ""},
            "make && find . -name '*.so' -exec cp {} {out}/ ';'",
            ("Makefile", "src"),
        ),
        (
            {"CMakeLists.txt": "", "csrc/a.cpp": "", "tests/a.cpp": ""},
            "cmake -S . -B build-kv -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON && "
            "cmake --build build-kv --parallel && "
            "find . -name '*.so' -exec cp {} {out}/ ';'",
            ("CMakeLists.txt", "csrc"),
        ),
        ({"ops/__init__.py": "", "setup.cfg": "", "conftest.py": ""}, None, ("ops",)),
    ],
    ids=["make with a library", "make", "cmake", "python"],
)
def test_build_is_that_of_the_files(repository, files, build, built_from):
    folder = repository(**files)
    assert init(folder) == (0, init_text(), "")
    section = config.project(folder)
    assert (section.build, section.built_from) == (build, built_from)
    assert config.suite(folder).modules() == ("example",)
    assert subprocess.run(["git", "check-ignore", "-q", ".asv/env"], cwd=folder, check=False).returncode == 0


def init_text(*, section="wrote kernel-velocity.toml"):
    files = ("asv.conf.json", "benchmarks/__init__.py", "benchmarks/example.py")
    lines = [*(f"wrote {name}" for name in files), section, "wrote .gitignore", "Look at what it says, then: kv track"]
    return "\n".join(sorted(lines[:1]) + lines[1:]) + "\n"


@pytest.mark.parametrize("importable", [True, False])
def test_distribution_is_built_as_a_wheel(repository, monkeypatch, importable):
    folder = repository(**{"pyproject.toml": BACKEND, "src/ops/__init__.py": ""})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if importable else None)
    assert init(folder) == (0, init_text(section="added to pyproject.toml"), "")
    text = (folder / "pyproject.toml").read_text()
    assert text.startswith(BACKEND) and tomllib.loads(text)["tool"]["kernel-velocity"]
    section = config.project(folder)
    assert ("--no-build-isolation" in section.build) == importable and section.built_from == ("src",)


def test_second_time_changes_nothing(repository):
    folder = repository(Makefile="libnorm.so: norm.c\n")
    init(folder)
    before = {path: path.read_text() for path in folder.iterdir() if path.is_file()}
    assert init(folder) == (0, "nothing to do: this repository is set up\n", "")
    assert before == {path: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_what_is_there_is_kept(repository):
    folder = repository(
        **{"benchmarks/bench.cpp": "", ".gitignore": "*.o", "a.py": "", "kernel-velocity.toml": "# mine"}
    )
    status, out, err = init(folder)
    assert status == 0 and "kv_benchmarks/example.py" in out and "kernel-velocity.toml" not in out
    assert "nothing here tells how kernels are built" in err
    assert (folder / ".gitignore").read_text() == "*.o\n.asv/\n"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (None, "no git repository"),
        ({"asv.conf.json": "{}"}, 'is there without kernel-velocity; add "plugins"'),
        ({"pyproject.toml": "[tool"}, "pyproject.toml: Expected"),
    ],
)
def test_refusal_is_one_line_and_writes_nothing(repository, tmp_path, files, message):
    folder = tmp_path if files is None else repository(**files)
    status, out, err = init(folder)
    assert status == 2 and not out and message in err and err.count("\n") == 1
    assert not (folder / "benchmarks").exists() and not (folder / ".gitignore").exists()


def test_folder_within_a_repository_is_refused(repository):
    folder = repository(**{"ops/a": ""})
    status, _, err = init(folder / "ops")
    assert status == 2 and f"kv init --root {folder}" in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("build = 5", "build: a text is wanted, got 5"),
        ('build = "make"', "is wanted, got 'make'"),
        (
            "built-form = []",
            "built-form: one of better, build, built-from, counts, kernels, sources, toolchain is wanted, got []",
        ),
        ('built-from = "src"', "built-from: a list is wanted, got 'src'"),
        ("[kernels]\nnorm = 5", "kernels.norm: a table of keys is wanted, got 5"),
        (
            '[kernels.norm]\nsymbols = ["norm"]',
            "kernels.norm.symbols[0]: a symbol such as libnorm.so:layernorm is wanted",
        ),
        ("[kernels.norm]\nsource = []", "kernels.norm.source: one of sources, symbols is wanted, got []"),
        ("build = ", "Invalid value"),
    ],
)
def test_malformed_section_is_one_line(repository, text, message):
    folder = repository(**{"asv.conf.json": "{}", "kernel-velocity.toml": text})
    status, _, err = kv("track", "--root", folder)
    assert status == 2 and message in err and err.count("\n") == 1
