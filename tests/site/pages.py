"""What the tests of pages share: pages of a tree, their text, and edits of a results tree."""

import html.parser
import json
import re
from pathlib import Path
from types import SimpleNamespace

import git

from kernel_velocity.engine import telemetry
from kernel_velocity.findings import store
from kernel_velocity.findings.finding import Kind, State
from kernel_velocity.results import lines
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.site import model, report
from kernel_velocity.site.pages import commit_facts
from kernel_velocity.site.pages import home as home_page
from kernel_velocity.site.pages import kernel as kernel_page
from kernel_velocity.site.writer import Page, json_bytes
from tests import synthetic
from tests.findings import nights

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = (
    "<script>window.pwned=1</script> \"quotes\" 'n' {{ 7*7 }} {% raw %} @name $x &amp; \N{ROCKET}\n\n"
    "</script><img src=x onerror=window.pwned=1> <!-- \u202eright to left\u202c",
    "}}]]></style>\"><svg onload=window.pwned=1>",
    "@subject{safe} $$\\frac{1}{2}$$ <b>bold</b>",
    "\u05e9\u05dc\u05d5\u05dd \u200f(RTL)",
    "back`tick ${alert(1)} \\u003c",
)  # fmt: skip
AUTHOR = 'O\'Brien &lt;b&gt; "{{ 7*7 }}" @name'  # git itself drops < and > from names
PARTS = {"environment": "hosttorch-py3.11", "method": "a1b2c3d4"}  # of an identity of the synthetic tree
INLINE = {*("a", "b", "bdi", "code", "dd", "dt", "small", "span", "strong", "sub", "sup", "svg", "td", "th", "time")}


class Tags(html.parser.HTMLParser):
    """Elements, attributes and text of a page. `lines` are its text, a line for each block, figures by their label."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.lines, self._skipped = set(), set(), "", [""], 0
        self.feed(text)
        self.lines = [line for line in (re.sub(r"\s+", " ", line).strip() for line in self.lines) if line]

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._skipped += tag in ("script", "style", "svg")
        if tag not in INLINE:
            self.lines.append("")
        elif tag == "svg" and self._skipped == 1:
            self.lines[-1] += f" [{dict(attrs).get('aria-label') or ''}]"
        else:
            self.lines[-1] += " | " if tag in ("td", "th") else " "

    def handle_endtag(self, tag):
        self._skipped -= tag in ("script", "style", "svg")
        if tag not in INLINE:
            self.lines.append("")

    def handle_data(self, data):
        self.text += data
        if not self._skipped:
            self.lines[-1] += data


def read(tree):
    return model.read(tree.results, tree.repository)


def rendered(page):
    """Return the HTML of a page."""
    context = page.context() if callable(page.context) else page.context
    return report.page_templates().get_template(page.template).render(context)


def words(page):
    """Return the text of a page, a line for each block."""
    return "\n".join(Tags(rendered(page)).lines)


def page_of(builder, tree):
    """Return the one page that a module of the site makes of a tree."""
    (page,) = [file for file in builder.build(read(tree)) if isinstance(file, Page)]
    return page


def as_text(value):
    """Return data as a golden file has them: of numbers twelve digits, which all processors agree on."""
    data = json.loads(json_bytes(value), parse_float=lambda text: float(f"{float(text):.12g}"))
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def kernel_files(tree_or_site):
    """Return the pages and data files of the kernels by name."""
    site = tree_or_site if hasattr(tree_or_site, "line") else read(tree_or_site)
    return {file.name: file for part in kernel_page.parts(site) for file in part(site)}


def shown(value):
    """Return what a template is filled with, with names for keys."""
    if isinstance(value, dict) and all(isinstance(name, str) and name.isidentifier() for name in value):
        return SimpleNamespace(**{name: shown(member) for name, member in value.items()})
    return [shown(member) for member in value] if isinstance(value, list) else value


def kernel(tree_or_site, name="matmul-Cpu"):
    """Return what the template of a kernel's page shows."""
    return shown(kernel_files(tree_or_site)[f"kernel-{name}.html"].context()["page"])


def home(tree):
    return shown(home_page.page(read(tree)))


def commit(tree, sha):
    facts = commit_facts.CommitFacts(read(tree))
    return shown(facts.context(sha, facts.recorded(sha))["page"])


def row_of(page, case, implementation="native"):
    (row,) = [row for row in page.rows if (row.case, row.implementation) == (case, implementation)]
    return row


def footnotes(section, cell):
    """Return the footnotes of a cell."""
    return [section.footnotes[mark - 1] for mark in cell.marks]


def results_file(tree, index, machine=synthetic.MACHINE):
    """Return the results file of a commit."""
    return tree.results / machine / f"{tree.commits[index][:8]}-{synthetic.ENVIRONMENT}.json"


def edit(path, change):
    """Change a JSON file: `change` takes its data."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def make_na(tree, index, name, cases, implementations=synthetic.IMPLEMENTATIONS):
    """Overwrite values of a commit with n/a, as asv stores what was not asked for."""

    def change(data):
        pairs = [
            (implementation, case) for implementation in synthetic.IMPLEMENTATIONS for case in synthetic.CASES[name]
        ]
        for number, (implementation, case) in enumerate(pairs):
            if case in cases and implementation in implementations:
                data["results"][name][0][number] = float("nan")

    edit(results_file(tree, index), change)


def say_why(tree, index, parameters, *, benchmark="matmul.Cpu.time_hot", error="gone", **more):
    """Keep why a value failed, or with `skipped` does not apply."""
    line = {"b": benchmark, "p": parameters, "t": 1.0, "error": error, **more}
    path = results_file(tree, index)
    (path.parent / "telemetry" / f"{path.stem}.failures.jsonl").write_text(json.dumps(line) + "\n")


def affected(ratio, **parts):
    return (nights.case(ratio=ratio, **parts).affected,)


def keep(tree, kind=Kind.REGRESSION, state=State.CONFIRMED, **changed):
    """Write a finding about the third commit of the tree. Return it."""
    finding = nights.finding(kind, state, **({"commits": (tree.commits[2],)} | changed))
    store.write(tree.results, finding)
    return finding


def add_session(tree, index, **facts):
    """Keep what a session found that measured a commit."""
    lines.append_session(results_file(tree, index), SessionFacts(began=100.0 + index, **facts))


def make_ragged(tree):
    """Make series of several methods and lengths, with a tag."""
    stem = f"{tree.commits[3][:8]}-{synthetic.ENVIRONMENT}"
    path = tree.results / synthetic.MACHINE / "telemetry" / f"{stem}.jsonl"
    lines = [telemetry.parse(line) | {"m": "bbbb0000"} for line in path.read_text().splitlines()]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    make_na(tree, 1, "matmul.Cpu.time_hot", ["float32-512x512x512"], ("native", "eager"))
    say_why(tree, 1, ["native", "float32-512x512x512"], benchmark="matmul.Cpu.time_hot", skipped=True)
    edit(results_file(tree, 2), lambda data: data["results"].pop("add_mul_exp.Cpu.time_hot"))
    synthetic.write_commit(tree.results, tree.commits[0], 0, telemetry=False)
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[1])
