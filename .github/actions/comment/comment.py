"""Write the verdict of a gate into one comment of its pull request, or replace the comment of an earlier run.

Needs Python alone. The files of FOLDER come from a run of the request's own code, which may have written anything: they
are cut to a length, and stand in a block of code, where no mention, link or image of theirs counts. The request is
found by what GitHub says of the run (OWNER, BRANCH and HEAD), never by what the files say.
"""

import json
import os
import re
import sys
import urllib.parse
import urllib.request
from pathlib import Path

LIMIT = 60_000  # characters of the text; GitHub takes 65,536 of a comment
PAGE = 100  # comments that GitHub lists at a time, at most
WORDS = {  # as kernel_velocity.statuses has them, which need not be installed here
    "0": "clean",
    "2": "usage or data error",
    "10": "regression confirmed",
    "11": "suspect: neither confirmed nor ruled out",
    "20": "a benchmark failed",
    "22": "nothing was measured or compared",
}


def text_of(path: Path) -> str:
    """Return a file's text, cut to LIMIT, without control characters. "" where there is no such file."""
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        text = file.read(4 * LIMIT).decode("utf-8", "replace")[:LIMIT]
    return "".join(character for character in text if character == "\n" or character.isprintable())


def body_of(folder: Path, marker: str, head: str, run: str) -> str:
    """Return the comment: a marker by which it is found again, the verdict, and the report as a block of code."""
    words = WORDS.get(text_of(folder / "status").strip(), "no verdict: the run's log says why")
    report = text_of(folder / "gate.txt").strip() or "No report was written."
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", report))]))
    return f"{marker}\n**kernel-velocity: {words}** ([{head[:8]}]({run}))\n\n{fence}text\n{report}\n{fence}\n"


def call(path: str, method: str = "GET", **data: str) -> list[dict]:
    """Return what GitHub's API answers. `data` goes into the query of a GET, else into the body."""
    get = method == "GET"
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    url += f"?{urllib.parse.urlencode(data)}" if get else ""
    headers = {
        "Authorization": f"Bearer {os.environ['GH_TOKEN']}",
        "Accept": "application/vnd.github+json",
        "Content-Type": "application/json",
    }
    body = None if get else json.dumps(data).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method), timeout=60) as answer:
        return json.load(answer)


def comments_of(number: int) -> list[dict]:
    """Return every comment of a pull request."""
    comments: list[dict] = []
    while len(comments) % PAGE == 0:
        page = call(f"issues/{number}/comments", per_page=str(PAGE), page=str(1 + len(comments) // PAGE))
        if not page:
            break
        comments += page
    return comments


def main() -> None:
    """Comment on the open request whose head the run measured. Without one, say so."""
    owner, branch, head = (os.environ[name] for name in ("OWNER", "BRANCH", "HEAD"))
    requests = call("pulls", state="open", head=f"{owner}:{branch}")
    numbers = [request["number"] for request in requests if request["head"]["sha"] == head]
    if not numbers:
        sys.stdout.write(f"no open pull request has the head {head}: it went on, or was closed\n")
        return
    marker = f"<!-- kernel-velocity {os.environ['NAME']} -->"
    body = body_of(Path(os.environ["FOLDER"]), marker, head, os.environ["RUN"])
    for number in numbers:
        # Anybody may write the marker, but nobody's comment than a program's is replaced
        ours = [
            comment["id"]
            for comment in comments_of(number)
            if comment["user"]["type"] == "Bot" and (comment["body"] or "").startswith(marker)
        ]
        path, method = (f"issues/comments/{ours[0]}", "PATCH") if ours else (f"issues/{number}/comments", "POST")
        call(path, method, body=body)
        sys.stdout.write(f"{'replaced' if ours else 'wrote'} the comment of pull request {number}\n")


if __name__ == "__main__":
    sys.exit(main())
