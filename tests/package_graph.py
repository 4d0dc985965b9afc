"""The import graph of the package's rooms, read from the sources, and the pictures of docs/explanation/architecture.md.

``python -m tests.package_graph`` draws the pictures anew, and the page's table of the rooms from their charters.
"""

import ast
import functools
import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tools" / "kernel_velocity"
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
PICTURES = ROOT / "docs" / "pictures"
# From the bottom up: a room imports only rooms of earlier lines. "leaves" are the modules that lie in no room.
RANKS = (
    ("leaves",),
    ("engine",),
    ("problem",),
    ("machine", "counts"),
    ("suite",),
    ("results",),
    ("stats", "roofline"),
    ("past",),
    ("verdict",),
    ("runner", "findings"),
    ("ab", "fleet"),
    ("nightly", "site"),
    ("compare",),
    ("scaffold",),
    ("faces",),
)
FACES = {"__main__", "asv_plugin", "pytest_plugin"}
ROOMS = [name for names in RANKS for name in names]
PURPOSES = {
    "leaves": "Modules that lie in no room: errors, units, files, locks, tables.",
    "faces": "The command line, asv's plugin and pytest's.",
}
# Where a room stands in its row: lines past other rooms run between them
COLUMNS = {"faces": 2, "scaffold": 5, "compare": 2.4, "nightly": 0.9, "site": 3.6, "ab": 1.4, "fleet": 0, "runner": 0.2}
COLUMNS |= {"findings": 2.2, "verdict": 1.9, "past": 1.9, "roofline": 3.6, "stats": 1.7, "results": 2}
COLUMNS |= {"suite": 2, "counts": 3.2, "machine": 2, "problem": 2, "engine": 2, "leaves": 2}
# The data from a commit to those who read them: box -> column, row, second line of its text
FLOW = {
    "commit": (0.5, 0, "the code under test"),
    "suite": (1.5, 0, "benchmarks/*.py"),
    "process": (1, 1, "samples, one round"),
    "spool": (0.5, 2, ".asv/spool"),
    "asv's file": (1.5, 2, "results/<machine>"),
    "telemetry": (0.5, 3, "a line a round"),
    "series": (1, 4, "columns, adjusted"),
    "dashboard": (0, 5, "kv report"),
    "findings": (1, 5, "kv nightly"),
    "data frames": (2, 5, "kv export, read"),
}
FLOWS = [("commit", "process"), ("suite", "process"), ("process", "spool"), ("process", "asv's file")]
FLOWS += [("spool", "telemetry"), ("telemetry", "series"), ("asv's file", "series"), ("series", "dashboard")]
FLOWS += [("series", "findings"), ("series", "data frames")]
STEP, BOX = (150, 66), (124, 38)  # pixels from box to box, and of a box
BEGIN, END = "<!-- rooms: python -m tests.package_graph -->", "<!-- end of rooms -->"


def modules(package):
    return sorted((ROOT / package).rglob("*.py"))


@functools.cache
def imports(path, *, top_only=False):
    """Return the absolute names that a module imports. What only type checkers see is left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if (isinstance(node, ast.If) and "TYPE_CHECKING" in names_in(node.test))
        or (top_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        for inner in ast.walk(node)
    }
    result = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or path.is_relative_to(ROOT / "kernels"), f"{path}: relative import"
            result |= {f"{node.module}.{alias.name}" for alias in node.names} if node.level == 0 else set()
        elif isinstance(node, ast.Call) and "import_module" in names_in(node.func):
            names = (str(name.value) for name in node.args if isinstance(name, ast.Constant))
            result |= {name for name in names if name.startswith("kernel_velocity.")}
    return frozenset(result)


def names_in(node):
    """Return the names that an expression has, alone and behind dots."""
    return {getattr(inner, "id", getattr(inner, "attr", None)) for inner in ast.walk(node)}


def module_name(path):
    """Return a module's dotted name in the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(name):
    """Return the room of a module of the package, by its dotted name."""
    first = name.split(".")[1:2]
    if first and first[0] in FACES:
        return "faces"
    return first[0] if first and (PACKAGE / first[0]).is_dir() else "leaves"


def texts(path):
    """Return the text constants of a module."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def arrows():
    """Return the rooms that every room imports."""
    names = {module_name(path): path for path in modules("tools/kernel_velocity")}
    graph = {name: set() for name in ROOMS}
    for name, path in names.items():
        targets = {target if target in names else target.rpartition(".")[0] for target in imports(path)}
        if path.stem == "__main__":  # it imports a command's module by its name
            targets |= {f"{PACKAGE.name}.{text}" for text in texts(path)}
        graph[room(name)] |= {room(target) for target in targets & names.keys()} - {room(name)}
    return graph


def direct(graph):
    """Return the arrows that no chain of other arrows implies, from the top down."""

    def below(name):
        return graph[name].union(*(below(target) for target in graph[name]))

    return [
        (name, target)
        for name in reversed(ROOMS)
        for target in sorted(graph[name], key=ROOMS.index, reverse=True)
        if not any(target in below(other) for other in graph[name] - {target})
    ]


def charter(face):
    """Return the docstring of an `__init__.py`. Empty where there is none."""
    return ast.get_docstring(ast.parse(face.read_text(encoding="utf-8"))) or ""


def purpose(name):
    """Return the first sentence of a room's charter."""
    if name in PURPOSES:
        return PURPOSES[name]
    first = charter(PACKAGE / name / "__init__.py").split("\n\n")[0].replace("\n", " ").replace("``", "`")
    return re.split(r"(?<=\.)\s", first)[0]


def drawing(boxes, arrows):
    """Return boxes and the arrows between them as an SVG.

    Args:
        boxes: name -> column, row, second line of text. arrows: pairs of names, from a row to a lower one.
    """
    (dx, dy), (width, height) = STEP, BOX
    centres = {name: (80 + dx * x, 35 + dy * y) for name, (x, y, _) in boxes.items()}
    lines = [
        f'<line x1="{centres[a][0]:g}" y1="{centres[a][1] + height / 2:g}" x2="{centres[b][0]:g}" '
        f'y2="{centres[b][1] - height / 2 - 2:g}" stroke="#778" marker-end="url(#arrow)"/>'
        for a, b in arrows
    ]
    for name, (x, y) in centres.items():
        second = escape(boxes[name][2])
        lines.append(
            f'<rect x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width}" height="{height}" rx="5" '
            'fill="#e8eef7" stroke="#778"/>'
        )
        lines.append(f'<text x="{x:g}" y="{y - (4 if second else -4):g}" font-weight="600">{escape(name)}</text>')
        lines += [f'<text x="{x:g}" y="{y + 12:g}" font-size="11">{second}</text>'] if second else []
    size = [round(max(centre[axis] for centre in centres.values())) + (80, 35)[axis] for axis in (0, 1)]
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" '
        f'height="{size[1]}" font-family="sans-serif" font-size="14" text-anchor="middle">',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#778"/></marker></defs>',
        '<rect width="100%" height="100%" rx="8" fill="#fff"/>',
    ]
    return "\n".join([*head, *lines, "</svg>", ""])


def drawings():
    """Return the pictures by the names of their files."""
    rows = {name: row for row, names in enumerate(reversed(RANKS)) for name in names}
    rooms = {name: (COLUMNS[name], row, "") for name, row in rows.items()}
    return {"rooms.svg": drawing(rooms, direct(arrows())), "data-flow.svg": drawing(FLOW, FLOWS)}


def table():
    """Return the table of the rooms, the top first."""
    lines = [BEGIN, "", "| room | what it is for |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {purpose(name)} |" for name in reversed(ROOMS)), "", END])


def page(text):
    """Return the text of the page with today's table in it."""
    before, rest = text.split(BEGIN)
    return before + table() + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for file, text in drawings().items():
        (PICTURES / file).write_text(text, encoding="utf-8")
