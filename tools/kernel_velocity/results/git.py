"""Read the repository through git: history, the commits a user names, kernels' source, the working tree as a commit.

The working tree becomes a commit that no branch refers to, so that uncommitted changes can be built and measured.
`git add` and `git commit` would touch the user's index and branch, `git stash create` leaves new files out. So a second
index (GIT_INDEX_FILE) takes the tree of HEAD and the differences, and `git commit-tree` makes a commit of it, which
`git gc` removes after two weeks. Its dates are those of HEAD, so the same contents are the same commit, with the same
wheel and rounds. A commit names a submodule's commit, and cannot hold an edit in the submodule. So a submodule that
differs from what HEAD names is in this commit as files.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePosixPath

import git
from git.objects.util import from_timestamp, utctz_to_altz

from kernel_velocity import units
from kernel_velocity.errors import HistoryError, KernelVelocityError, UsageError
from kernel_velocity.results.lines import DIGITS
from kernel_velocity.results.records import Commit, History
from kernel_velocity.suite import config
from kernel_velocity.suite.config import Project

SHORT = DIGITS  # of a commit's hash, to show it

_FIELDS = "%H%n%P%n%an%n%ad%n%cd%n%B"

DEFAULT_COMMITS = 3
UNSHALLOW = "`git fetch --unshallow` brings the other commits (in a workflow, `fetch-depth: 0` of actions/checkout)"
EXAMPLES = "for example RANGE=HEAD~3..HEAD for three commits, RANGE=HEAD for one"
_IS_SET = re.compile(r"\.\.|\^[!@-]|^\^")  # marks a git revision as a set of commits


MESSAGE = "Working tree, uncommitted"
SUBMODULE = "160000"  # git's mode of an entry that names a commit of another repository
INDEX = "kernel-velocity-index"
# Of files of a folder, in the order shown: the kernels, their parts, then what calls them
SOURCE_SUFFIXES = (".cu", ".cpp", ".cc", ".c", ".cuh", ".hpp", ".h", ".py")
MOST_VERSIONS = 100  # with them the data beside a page stays at a few MB, whatever the history
_COMMIT = "commit "  # begins the line of a commit in git's log; other lines are paths
_WHO = {"NAME": "kernel-velocity", "EMAIL": "kernel-velocity@localhost"}


def read(repository: Path, wanted: Iterable[str]) -> History:
    """Return the first-parent line of HEAD, and the wanted commits.

    Args:
        repository: a folder inside the working tree.
        wanted: full SHAs. Those that the repository does not have are absent from `commits`.

    Raises:
        HistoryError: no git repository, or one without a commit.
    """
    with opened(repository, "the commits of HEAD") as repo:
        if not repo.head.is_valid():
            raise HistoryError(f"{repository}: the repository has no commit yet, or HEAD names none: make one")
        line = repo.git.rev_list("HEAD", "--first-parent").split()
        shallow = Path(repo.common_dir, "shallow").exists()
        distinct = dict.fromkeys(wanted)
        listed = _listed_commits(repo, distinct.keys() & line)
        candidates = (listed.get(sha) or commit_of(repo, sha) for sha in distinct)
        commits = _told_apart(commit for commit in candidates if commit is not None)
        return History(line=tuple(reversed(line)), commits=commits, shallow=shallow, tags=_tags(repo))


def _told_apart(commits: Iterable[Commit]) -> dict[str, Commit]:
    """Return commits by SHA, those whose hashes begin with the same digits as ones that show all of theirs."""
    read = {commit.sha: commit for commit in commits}
    counts = Counter(commit.short for commit in read.values())
    alike = (commit for commit in read.values() if counts[commit.short] > 1)
    return read | {commit.sha: replace(commit, digits=len(commit.sha)) for commit in alike}


@contextlib.contextmanager
def opened(repository: Path, what: str) -> Iterator[git.Repo]:
    """Open a repository to read something, which the message of an error names.

    Raises:
        HistoryError: there is none, or git cannot read what the body asks for.
    """
    try:
        with git.Repo(repository, search_parent_directories=True) as repo:
            folder = Path(repo.common_dir)
            if folder.name != ".git" and not (folder / "config").exists():  # GitPython takes it for a working tree
                raise HistoryError(
                    f"{folder}: a bare clone without a config; `git init --bare {folder}` writes it again"
                )
            yield repo
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        raise HistoryError(
            f"{repository}: no git repository, a clone of the kernels' is wanted: name it with --repository"
        ) from None
    except (git.GitError, OSError, ValueError) as error:
        reason = str(getattr(error, "stderr", "") or error).strip().partition("\n")[0].removeprefix("stderr: '")
        raise HistoryError(f"{repository}: git cannot read {what}: {reason}: try `git fsck`") from None


def merged(repository: Path, merges: Iterable[Commit], *, saying: str) -> dict[str, tuple[Commit, ...]]:
    """Return the commits that merges brought and have a line in the message that begins with `saying`.

    The result is by the merge's SHA.

    Args:
        repository: a folder inside the working tree. merges: commits. Those of one parent bring none.
        saying: text, not a regular expression. Upper and lower case are equal.
    """
    ranges = {merge.sha: f"{merge.parents[0]}..{merge.sha}" for merge in merges if len(merge.parents) > 1}
    matches = {sha: announcing(repository, wanted, saying=saying) for sha, wanted in ranges.items()}
    return {sha: tuple(commit for commit in commits if commit.sha != sha) for sha, commits in matches.items()}


def announcing(repository: Path, wanted: str, *, saying: str) -> tuple[Commit, ...]:
    """Return the commits of a range whose messages have a line that begins with `saying`, newest first.

    git searches: a branch may bring thousands.
    """
    with opened(repository, f"the commits {wanted}") as repo:
        options = ("--regexp-ignore-case", "--basic-regexp", f"--grep=^{saying}")
        listed = repo.git.rev_list(*options, "--end-of-options", wanted, "--").split()
        return tuple(commit for sha in listed if (commit := commit_of(repo, sha)) is not None)


def changed_lines(repository: Path, commits: Sequence[str]) -> dict[str, tuple[tuple[str, str, str], ...]]:
    """Return the files that commits changed against their first parents, by full SHA.

    Each file has the numbers of lines added and removed, "-" of a binary file.

    Args:
        repository: a folder inside the working tree. commits: full SHAs that the repository has.

    Raises:
        HistoryError: git cannot read a commit's files, as in a clone without them.
    """
    if not commits:
        return {}
    options = ("--no-walk=unsorted", "--first-parent", "-m", "--root", "--no-renames", "--numstat", "-z")
    with opened(repository, f"the files of {len(commits)} commits") as repo:
        text: str = repo.git.log(*options, "--format=%x01%H", "--end-of-options", *commits, "--")

    def numbers(line: str) -> tuple[str, str, str]:
        added, removed, name = line.split("\t", 2)
        return name, added, removed

    parts = (part.partition("\0") for part in text.split("\x01")[1:])
    return {sha.strip(): tuple(map(numbers, filter(None, lines.lstrip("\n").split("\0")))) for sha, _, lines in parts}


def changed_files(repository: Path, before: str, after: str, folder: Path) -> tuple[str, ...]:
    """Return the files of a folder that differ between two commits, from the top of the repository.

    () for a folder outside it.
    """
    done = run(repository, "diff", "--name-only", "-z", before, after, "--", str(folder))
    return tuple(done.stdout.split("\0")[:-1]) if done.returncode == 0 else ()


def difference(repository: Path, commit: str, paths: Iterable[str]) -> str:
    """Return what a commit changed in some files and folders, against its first parent. "" where git cannot tell."""
    plain = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--format=")
    where = (f":(top){path}" for path in paths)
    shown = run(repository, "show", "-m", "--first-parent", *plain, commit, "--", *where)
    return shown.stdout if shown.returncode == 0 else ""


def changed_lines_of(before: str, after: str) -> list[tuple[range, range]]:
    """Return which lines of two texts differ, as ranges of lines from 0, in order. One of a pair may be empty."""
    options = ("--no-color", "--no-ext-diff", "--text", "--histogram", "--unified=0", "--inter-hunk-context=0")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("before", before), ("after", after)):
            Path(folder, name).write_text(text, encoding="utf-8")
        shown = run(Path(folder), "diff", "--no-index", *options, "before", "after").stdout
    hunks = re.findall(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", shown, re.MULTILINE)
    return [(_numbered(*hunk[:2]), _numbered(*hunk[2:])) for hunk in hunks]


def _numbered(first: str, count: str) -> range:
    number = int(count or 1)
    start = int(first) - 1 if number else int(first)  # of no lines git names the one before
    return range(start, start + number)


def _tags(repo: git.Repo) -> dict[str, tuple[str, ...]]:
    """Return the names of the tags by the commit that they point at. A tag of anything else is left out."""
    listed = repo.git.for_each_ref(
        "refs/tags", format="%(*objectname) %(objectname) %(*objecttype) %(objecttype) %(refname:strip=2)"
    )
    tags: dict[str, list[str]] = {}
    for line in listed.splitlines():
        peeled, direct, *rest = line.split(" ")
        kinds, name = [kind for kind in rest[:-1] if kind], rest[-1]
        if kinds and kinds[0] == "commit":
            tags.setdefault(peeled or direct, []).append(name)
    return {sha: tuple(sorted(names)) for sha, names in tags.items()}


def _listed_commits(repo: git.Repo, shas: Collection[str]) -> dict[str, Commit]:
    """Return commits of the repository by SHA, of thousands in a tenth of the time of `commit_of`. Odd ones lack."""
    if not shas:
        return {}
    with tempfile.TemporaryFile() as stream:
        stream.write("\n".join(shas).encode())
        stream.seek(0)
        options = ("--stdin", "--no-walk=unsorted", "--no-show-signature", "--encoding=UTF-8", "--date=raw", "-z")
        listed = repo.git.log(*options, f"--format={_FIELDS}", istream=stream, stdout_as_string=False)
    commits = {}
    for text in listed.decode("utf-8", "replace").split("\0")[:-1]:
        sha, parents, author, *dates, message = text.split("\n", 5)
        with contextlib.suppress(ValueError, OverflowError):  # an impossible date
            date, committed = (from_timestamp(int(date), utctz_to_altz(zone)) for date, zone in map(str.split, dates))
            commits[sha] = Commit(
                sha=sha,
                parents=tuple(parents.split()),
                author=author or "unknown author",
                date=date,
                committed=committed,
                message=message,
            )
    return commits


def commit_of(repo: git.Repo, sha: str) -> Commit | None:
    """Return a commit, or None where the repository has none of that name."""
    try:
        commit = repo.commit(sha)
        return Commit(
            sha=commit.hexsha,
            parents=tuple(parent.hexsha for parent in commit.parents),
            author=commit.author.name or "unknown author",
            date=commit.authored_datetime,
            committed=commit.committed_datetime,
            # GitPython hands out bytes where the encoding a commit names is unknown
            message=commit.message if isinstance(commit.message, str) else commit.message.decode("utf-8", "replace"),
        )
    except (git.BadName, ValueError):  # ValueError: not a commit; GitPython may notice at the first field only
        return None


def run(
    repository: Path, *args: str, variables: Mapping[str, str] | None = None, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run git in a repository, with these variables of its environment and text as input. The caller checks the status.

    Raises:
        HistoryError: there is no git.
    """
    try:
        return subprocess.run(
            ["git", *args],
            cwd=repository,
            env={**os.environ, **(variables or {})},
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # a message or a name in another encoding
            input=text,
            check=False,
        )
    except FileNotFoundError:
        raise HistoryError("git is not installed: the commits to measure are taken from a git clone") from None


def output(repository: Path, *args: str, variables: Mapping[str, str] | None = None, text: str | None = None) -> str:
    """Return what git prints in a repository, with these variables of its environment and a text as input.

    Raises:
        HistoryError: git fails, with its reason, or there is no git.
    """
    done = run(repository, *args, variables=variables, text=text)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        reason = next((line for line in lines if line.startswith(("error: ", "fatal: "))), lines[-1])
        raise HistoryError(f"{repository.absolute()}: git {args[0]}: {reason}")
    return done.stdout.strip()


def checked_out(folder: Path) -> str:
    """Return the branch that is checked out around a folder, the commit where it is none, "" outside repositories."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    branch = run(there, "symbolic-ref", "--quiet", "--short", "HEAD")
    return (branch.stdout or run(there, "rev-parse", "--quiet", "--verify", "HEAD").stdout).strip()


def first_commit(repository: Path) -> str:
    """Return the SHA of the repository's first commit, which identifies the project."""
    return output(repository, "rev-list", "--max-parents=0", "HEAD").split()[-1]


def bundle(repository: Path, path: Path) -> None:
    """Write the history of HEAD as a git bundle."""
    output(repository, "bundle", "create", "-q", str(path.absolute()), "HEAD")


def check_ancestors(repository: Path, commits: Iterable[str]) -> None:
    """Raise a UsageError if the history of HEAD lacks one of some commits."""
    for commit in commits:
        if not is_ancestor(repository, commit):
            cure = cut_off(repository) or "; check out a branch that has it"
            raise UsageError(f"--range: {commit[:SHORT]} is no ancestor of HEAD{cure}")


def is_ancestor(repository: Path, commit: str, of: str = "HEAD") -> bool:
    """Return whether a commit is an ancestor of another one, or that one."""
    return run(repository, "merge-base", "--is-ancestor", commit, of).returncode == 0


def is_shallow(repository: Path) -> bool:
    """Return whether a clone lacks older commits."""
    return run(repository, "rev-parse", "--is-shallow-repository").stdout.strip() == "true"


def cut_off(repository: Path) -> str:
    """Return the end of a message that a commit is not here, or has no past: the cure of a shallow clone, else ""."""
    return f"; this clone is shallow: {UNSHALLOW}" if is_shallow(repository) else ""


def check_clone(repository: Path) -> list[str]:
    """Return notes on the clone for the user, one line each.

    Raises:
        HistoryError: no git repository, or one without a commit.
    """
    done = run(repository, "rev-parse", "--git-dir")
    if done.returncode != 0:
        raise HistoryError(_refusal(repository, done.stderr))
    if run(repository, "rev-parse", "--verify", "-q", "HEAD").returncode != 0:
        raise HistoryError(f"{repository.absolute()}: the repository has no commit yet; commit something to measure")
    notes = []
    if is_shallow(repository):
        count = int(run(repository, "rev-list", "--count", "HEAD").stdout)
        notes.append(f"shallow clone: only {units.count(count, 'commit')} known here; {UNSHALLOW}")
    built_from = config.project(repository).built_from
    changed = run(repository, "status", "--porcelain", "--", *built_from).stdout.splitlines()
    if built_from and changed:
        name = changed[0][3:]
        notes.append(f"uncommitted changes are not measured, commits are: {name}{' and more' if changed[1:] else ''}")
    return notes


def _refusal(repository: Path, message: str) -> str:
    """Return why a folder is no repository for git: in git's words, if it is one of another user."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if not lines or "not a git repository" in lines[0]:
        return f"{repository.absolute()}: no git repository; `kv track` measures commits of a clone"
    cures = [f"; run `{line}`" for line in lines if line.startswith("git config ")]
    return f"{repository.absolute()}: git says: {lines[0]}{''.join(cures)}"


def commits(
    repository: Path, wanted: str | None, *, most: int = DEFAULT_COMMITS, changing: bool = False
) -> tuple[str, ...]:
    """Return the commits to measure, newest first, along first parents (asv's trends show no others).

    Args:
        repository: the folder of asv.conf.json. wanted: a git range, or single revisions. None: the last commits
            that changed what a build depends on (config.Project), at most `most`.
        changing: whether only those of a range are wanted that did. Where none did, the newest is returned.

    Raises:
        UsageError: `wanted` names no commit.
    """
    if wanted is None:
        built = _listed(repository, f"-{most}", "HEAD", "--", *config.project(repository).built_from)
        return built or _listed(repository, "-1", "HEAD", "--")
    words = wanted.split()
    alone = not any(map(_IS_SET.search, words))
    if any(word.startswith("-") for word in words):
        raise UsageError(f"RANGE={wanted!r} is an option of git; a range is wanted, {EXAMPLES}")
    listed = _listed(repository, *(["--no-walk"] if alone else []), *words, "--")
    if not listed:
        what = f"RANGE={wanted!r} names no commit of this repository; a git range is wanted, {EXAMPLES}"
        raise UsageError(what + cut_off(repository))
    built_from = config.project(repository).built_from
    if alone or not changing or not built_from:
        return listed
    return _listed(repository, *words, "--", *built_from) or listed[:1]


def newest(repository: Path, most: int) -> tuple[str, ...]:
    """Return the newest commits along the first parents of HEAD, newest first."""
    return _listed(repository, f"-{most}", "HEAD", "--")


def idle(repository: Path, wanted: str = "HEAD") -> frozenset[str]:
    """Return the commits along the first parents of a git range that touched nothing that a build depends on.

    None where every file may count (config.Project).

    Raises:
        HistoryError: git fails.
    """
    built_from = config.project(repository).built_from
    if not built_from:
        return frozenset()
    every = ("rev-list", "--first-parent", wanted, "--")
    line, changing = (output(repository, *every, *paths).split() for paths in ((), built_from))
    return frozenset(line).difference(changing)


def is_same(repository: Path, old: str, new: str, paths: Sequence[str]) -> bool:
    """Return whether two commits have the same files. False where one is not in the clone.

    Args:
        paths: the files and folders that count, below the repository's folder. (): all.
    """
    options = ("diff-tree", "--quiet", "--ignore-submodules=none", old, new, "--")
    return run(repository, *options, *paths).returncode == 0


@dataclass(frozen=True)
class SideCommit:
    """A commit beside the first-parent line that a merge brought to it."""

    fork: int  # position on the line of the newest commit that is behind it; -1: none
    merge: int  # position of the merge
    is_merge_alike: bool  # whether the merge has the same files


def side_commits(repository: Path, wanted: Collection[str]) -> Mapping[str, SideCommit]:
    """Return those of some commits that merges brought to the first-parent line of HEAD, by full SHA.

    Raises:
        HistoryError: git fails.
    """
    if not wanted:
        return {}
    listed = output(repository, "log", "--topo-order", "--reverse", "--no-show-signature", "--format=%H %T %P", "HEAD")
    parents, trees = dict[str, list[str]](), dict[str, str]()
    for row in listed.splitlines():
        sha, trees[sha], *parents[sha] = row.split()
    newest, line = next(reversed(parents), None), list[str]()
    while newest in parents:
        line.append(newest)
        newest = next(iter(parents[newest]), None)
    line.reverse()
    order = {sha: position for position, sha in enumerate(line)}
    forks = dict(order)  # of every commit, oldest first
    for sha, of in parents.items():
        forks.setdefault(sha, max((forks.get(parent, -1) for parent in of), default=-1))
    merges = dict(order)
    for position, sha in enumerate(line):
        waiting = parents[sha][1:]
        while waiting:
            other = waiting.pop()
            if other in parents and merges.setdefault(other, position) == position and other not in order:
                waiting += [parent for parent in parents[other] if parent not in merges]
    return {
        sha: SideCommit(forks[sha], merges[sha], trees[sha] == trees[line[merges[sha]]])
        for sha in wanted
        if sha in merges and sha not in order
    }


def _listed(repository: Path, *args: str) -> tuple[str, ...]:
    done = run(repository, "rev-list", "--first-parent", *args)
    return tuple(done.stdout.split()) if done.returncode == 0 else ()


def resolve(repository: Path, role: str, revision: str) -> str:
    """Return the SHA of the commit that a revision names.

    Args:
        role: of the commit, such as "BASE", for the message.

    Raises:
        UsageError: it names none.
    """
    done = run(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    sha = done.stdout.strip()
    if done.returncode != 0 or not sha:
        pattern = f"refs/remotes/*/{revision or '-'}"
        fetched = output(repository, "for-each-ref", "--count=1", "--format=%(refname:short)", pattern)
        cure = f"; {fetched} is here: name that" if fetched else cut_off(repository)
        wanted = cure or "; a branch, a tag or a SHA is wanted"
        raise UsageError(f"{role}={revision!r} names no commit of this repository{wanted}")
    return sha


def check_two(
    repository: Path, names: tuple[str, str], before: str, after: str, error: type[KernelVelocityError] = UsageError
) -> None:
    """Refuse to compare a commit with itself.

    Args:
        names: of the sides, for the message. before, after: full SHAs. error: raised with the cause and its cure.
    """
    if before == after:
        cure = cut_off(repository) or f"; name an earlier {names[0]}, such as {before[:SHORT]}~1"
        raise error(f"{names[0]} and {names[1]} are the same commit ({before[:SHORT]}): nothing to compare{cure}")


def between(repository: Path, good: str, bad: str) -> tuple[str, ...]:
    """Return the commits after `good` up to `bad`, oldest first, along first parents.

    Raises:
        UsageError: `good` is no ancestor of `bad`, or the same.
    """
    check_two(repository, ("GOOD", "BAD"), good, bad)
    if not is_ancestor(repository, good, bad):
        cure = cut_off(repository) or "; a commit before BAD is wanted"
        raise UsageError(f"GOOD ({good[:SHORT]}) is no ancestor of BAD ({bad[:SHORT]}){cure}")
    listed = run(repository, "rev-list", "--first-parent", "--reverse", f"{good}..{bad}").stdout.split()
    return tuple(listed)


def working_tree(root: Path) -> str:
    """Return the SHA of a commit with the contents of the working tree, HEAD itself if nothing differs.

    New files are included, ignored ones are not.

    Args:
        root: the folder of asv.conf.json. A temporary index is written beside the user's, in git's own folder.

    Raises:
        HistoryError: git fails. The message is git's.
    """
    index = root.absolute() / output(root, "rev-parse", "--git-path", f"{INDEX}-{os.getpid()}")
    variables = {"GIT_INDEX_FILE": str(index)}
    try:
        output(root, "read-tree", "HEAD", variables=variables)
        output(root, "add", "--all", "--", ":/", variables=variables)
        for folder in (".asv", config.results_dir(root)):  # what a run writes changes no build
            # Note: `:(exclude)` fails where the excluded path is ignored too
            if (path := (root / folder).resolve()).is_relative_to(root.resolve()):
                output(root, "reset", "--quiet", "HEAD", "--", str(path), variables=variables)
        _add_submodules(Path(output(root, "rev-parse", "--show-toplevel")), variables)
        tree = output(root, "write-tree", variables=variables)
    finally:
        for path in (index, index.with_name(f"{index.name}.lock")):
            path.unlink(missing_ok=True)
    if tree == output(root, "rev-parse", "HEAD^{tree}"):
        return output(root, "rev-parse", "HEAD")
    date = output(root, "show", "-s", "--format=%cI", "HEAD")
    who = {
        f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in {**_WHO, "DATE": date}.items()
    }
    return output(root, "commit-tree", tree, "-p", "HEAD", "-m", MESSAGE, variables=who)


def _add_submodules(top: Path, variables: Mapping[str, str]) -> None:
    """Put submodules that differ from HEAD's into an index as files: those that git knows or does not ignore.

    Args:
        top: the folder of the repository. variables: name the index, which has the working tree but for submodules.
    """
    while changed := _changed_submodules(top, variables):  # those within them are found in the next turn
        for path in changed:
            listed = run(top / path, "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout
            names = dict.fromkeys(f"{path}/{name}" for name in listed.split("\0") if name)
            output(top, "update-index", "--force-remove", "--", path, variables=variables)
            files = "".join(f"{name}\0" for name in names if not _is_empty_submodule(top / name))
            output(top, "update-index", "--add", "--remove", "-z", "--stdin", variables=variables, text=files)


def _is_empty_submodule(path: Path) -> bool:
    """Return whether a name that git lists is a submodule that was never checked out."""
    return path.is_dir() and not path.is_symlink() and not (path / ".git").exists()


def _changed_submodules(top: Path, variables: Mapping[str, str]) -> list[str]:
    """Return the paths of submodules of an index that HEAD lacks, or has with another commit or other contents."""
    listed = run(top, "diff-index", "--raw", "-z", "--ignore-submodules=none", "HEAD", variables=variables).stdout
    facts, paths = listed.split("\0")[:-1:2], listed.split("\0")[1::2]
    return [path for fact, path in zip(facts, paths, strict=True) if fact.split(" ")[1] == SUBMODULE]


# The source of kernels, which `config.Project` names ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SourceVersion:
    """A kernel's files from one commit on, until the next version's."""

    commit: Commit  # of the first-parent line, which brought this version; measured or not
    files: tuple[tuple[str, str], ...]  # name, text


def source_changes(repository: Path, project: Project, kernels: Collection[str]) -> Mapping[str, Sequence[str]]:
    """Return the commits of the first-parent line that changed the source of a kernel, by kernel.

    One call for all kernels: git goes through the whole history each time.

    Raises:
        HistoryError: git cannot read it.
    """
    sources = dict.fromkeys(source for kernel in kernels for source in project.sources_of(kernel))
    if not sources:
        return {}
    with opened(repository, f"the commits of {', '.join(sources)}") as repo:
        log = repo.git(c=["log.showRoot=true", "core.quotePath=false"]).log(
            *("HEAD", "--first-parent", "--diff-merges=first-parent", "--no-renames", "--name-only"),
            *(f"--format={_COMMIT}%H", "--", *(f":(top){source}" for source in sources)),
        )
    commits: dict[str, dict[str, None]] = {}
    owners, sha = project.owners(kernels), ""
    for line in log.splitlines():
        if line.startswith(_COMMIT):
            sha = line.removeprefix(_COMMIT)
        for kernel in owners(line):
            commits.setdefault(kernel, {})[sha] = None
    return {kernel: tuple(shas) for kernel, shas in commits.items()}


def source_versions(
    repository: Path,
    sources: Sequence[str],
    changed: Iterable[str],
    measured: Sequence[int],
    order: Mapping[str, int],
) -> tuple[SourceVersion, ...]:
    """Return the newest MOST_VERSIONS versions that measured commits had, oldest first.

    Args:
        repository: a folder inside the working tree. sources: files and folders of the kernel.
        changed: the commits that changed them (`source_changes`).
        measured: the positions of commits on the first-parent line, ascending.
        order: commit -> its position on that line. Others are left out.

    Raises:
        HistoryError: git cannot read it.
    """
    along = sorted((sha for sha in changed if sha in order), key=order.__getitem__)
    starts = [bisect_left(measured, order[sha]) for sha in along]
    # the changes with a measured commit at or after them, before the next one
    stretches = pairwise([*starts, len(measured)])
    used = [sha for sha, (start, end) in zip(along, stretches, strict=True) if start < end]
    if not used:
        return ()
    with opened(repository, f"{', '.join(sources)} of a measured commit") as repo:
        shas = used[-MOST_VERSIONS:]
        versions = ((commit_of(repo, sha), _source_files(repo, sha, sources)) for sha in shas)
        return tuple(SourceVersion(commit=commit, files=files) for commit, files in versions if commit and files)


def _source_files(repo: git.Repo, sha: str, sources: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the names and texts of a kernel's sources at a commit: of folders the files that SOURCE_SUFFIXES lists."""
    blobs: list[git.Blob] = []
    for source in sources:
        with suppress(KeyError):  # the commit has no such file
            entry = repo.commit(sha).tree / source
            if isinstance(entry, git.Blob):
                blobs.append(entry)
            elif isinstance(entry, git.Tree):
                listed = [blob for blob in entry.blobs if PurePosixPath(blob.name).suffix in SOURCE_SUFFIXES]
                blobs += sorted(
                    listed, key=lambda blob: (SOURCE_SUFFIXES.index(PurePosixPath(blob.name).suffix), blob.name)
                )
    return tuple((blob.name, blob.data_stream.read().decode("utf-8", "replace")) for blob in blobs)
