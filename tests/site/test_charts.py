"""Charts, badges, colours and styles: what is drawn, contrast by computation, rules that pages use."""

import itertools
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.engine.telemetry import parse
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.site import model, outside, report
from kernel_velocity.site.charts import plot
from kernel_velocity.site.charts.plot import COLOURS, Mark, Plot, Span, around, colours_of
from kernel_velocity.site.pages import roofline
from kernel_velocity.site.report import TEMPLATES, page_templates
from tests import synthetic
from tests.findings import synthetic_extras
from tests.site import machine_records
from tests.site.pages import edit, make_na, results_file


def test_implementation_keeps_its_colour():
    everywhere = colours_of(("eager", "native"))["native"]
    assert colours_of(("compile", "native", "mine"))["native"] == everywhere
    many = colours_of(tuple("abcdefgh"))
    assert len(many) == 8
    assert set(COLOURS.values()).isdisjoint(many.values())


DOT = Mark(x=0.25, y=1.0, shape="circle", colour="#123456", title="a dot")
TEXT_ELEMENT = re.compile(r"<text [^>]*>([^<]*)</text>")


def written(names=(), dots=(DOT,), **roofs):
    """Return the texts of a roofline plot without those of its axes."""
    svg = roofline.draw(dots, Roofs(**({"levels": (), "peaks": {}} | roofs)), [], names).svg("")
    return [text for text in TEXT_ELEMENT.findall(svg) if not re.match(r"[\d.,]+( [kMGT])?$|arithmetic|rate,", text)]


def test_roofs_that_lie_close_share_a_label():
    texts = written(peaks={"float32": 67e12, "float64": 66e12, "float16": 900e12, "int8": 1800e12})
    assert texts == ["int8 1,800 TOPS", "float16 900 TFLOPS", "float32 67.0 TFLOPS, float64 66.0 TFLOPS"]
    texts = written(peaks={"float64": 200e9, "float16": 247e9, "float32": 247e9})
    assert texts == ["float16, float32 247 GFLOPS, float64 200 GFLOPS"]


def test_names_of_dots_keep_apart():
    """Above a dot, further up where another name is, and nowhere where there is no room."""
    names = [roofline.Name(intensity=0.25, text=text, attributes={}) for text in ("first", "second")]
    svg = roofline.draw([DOT], Roofs(levels=(), peaks={}), [], names).svg("")
    offsets = re.findall(r'dy="(-?\d+)" text-anchor="middle" class="name"', svg)
    assert offsets == ["-12", "-27"]
    many = [roofline.Name(intensity=0.25, text="the same", attributes={})] * 20
    assert 2 < len(written(many)) < 20


# ---- charts -----------------------------------------------------------------------------------------------------


ENDS = st.floats(-1e9, 1e9)


@settings(max_examples=50)
@given(st.lists(st.tuples(ENDS, ENDS), min_size=1, max_size=9), st.booleans())
def test_everything_lies_within_the_frame(points, is_log):
    values = [(1e-3 + abs(x), 1e-3 + abs(y)) if is_log else (x, y) for x, y in points]
    xs, ys = zip(*values, strict=True)
    plot = Plot(around("x", xs, is_log=is_log), around("y", ys, is_log=is_log))
    plot.line(values)
    for x, y in values:
        plot.mark(Mark(x=x, y=y, shape="circle", colour="#123456", title=""))
    svg = plot.svg("")
    shares = [float(at) for at in re.findall(r"([\d.-]+)%", svg)]
    assert len(shares) > 4 and all(0 <= at <= 100 for at in shares)


def test_titles_of_marks_are_escaped():
    plot = Plot(Span(title="x", low=0, high=1), Span(title="<b>", low=0, high=1))
    plot.mark(Mark(x=0, y=0, shape="cross", colour="#123456", title="<script>", href='"><b>', to=1.0))
    svg = plot.svg('"<i>')
    assert 'role="group"' in svg and 'class="mark older"' in svg
    assert not [word for word in ("<script", "<b>", "<i>") if word in svg]


# ---- badges -----------------------------------------------------------------------------------------------------


def drawn(tree):
    """Return the badges as text by file name."""
    templates = page_templates()
    return {
        made.name: templates.get_template(made.template).render(made.context)
        for made in outside.build_badges(model.read(tree.results, tree.repository))
    }


def title(text):
    return ET.fromstring(text)[0].text


def test_badge_of_every_kernel_and_device(whole_tree):
    images = drawn(whole_tree)
    names = {f"badge-{kernel}-{device}.svg" for kernel in ("add_mul_exp", "matmul") for device in ("Cpu", "Cuda")}
    assert set(images) == names
    assert title(images["badge-matmul-Cuda.svg"]) == (
        "matmul on Cuda: 2.50 TFLOPS · 4.1% of float32 peak "
        f"(native, float32-512x512x512, {synthetic_extras.OTHER}, commit {whole_tree.commits[-1][:8]})"
    )


def test_badge_without_ceilings(tree):
    images = drawn(tree)["badge-add_mul_exp-Cpu.svg"]
    assert re.fullmatch(r"add_mul_exp on Cpu: 12\.5 GFLOPS · unchanged \(native, .*\)", title(images))
    assert outside.COLOUR in images


@pytest.mark.parametrize(("factor", "ground"), [(0.5, outside.COLOURS["faster"]), (2.0, outside.COLOURS["slower"])])
def test_badge_of_a_change(tree, factor, ground):
    """Not of eager: what PyTorch's implementations share is the machine's doing."""
    path = machine_records.telemetry_of(tree, 4)
    lines = [parse(line) for line in path.read_text().splitlines()]
    scaled = [{**line, "e": (factor if line["p"][0] != "eager" else 1) * line["e"]} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in scaled))

    def scale(data):
        for row in data["results"].values():
            for index, names in enumerate(itertools.product(*row[1])):
                if names[0] != "'eager'" and row[0][index]:
                    row[0][index] *= factor

    edit(results_file(tree, 4), scale)
    assert ground in drawn(tree)["badge-matmul-Cpu.svg"]


def test_no_badge_of_controls(tree):
    for index in range(5):
        for name, cases in synthetic.CASES.items():
            make_na(tree, index, name, list(cases), ("native", "triton"))
    assert drawn(tree) == {}


def test_badge_of_hostile_names(hostile_tree):
    images = drawn(hostile_tree)
    assert len(images) == 4
    for text in images.values():
        root = ET.fromstring(text)
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert tags == {"svg", "title", "clipPath", "rect", "g", "text"} and int(root.get("width")) < 500
    (longest,) = [text for name, text in images.items() if "add_mul_exp" in name and name.endswith("Cuda.svg")]
    shown = [element.text for element in ET.fromstring(longest).iter() if element.tag.endswith("}text")]
    assert shown[0].endswith("… Cuda")


# ---- colours ----------------------------------------------------------------------------------------------------

GRAPHICS = 3.0  # contrast that WCAG 2.2 wants (1.4.11, level AA); axe measures that of texts (test_browser_crawl.py)
# What dichromats see of linear sRGB: Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of
# color vision deficiency", IEEE TVCG 15(6), 2009, severity 1.0.
SIMULATED = {
    "everybody": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
APART = 35.0  # of CIELAB (CIE 1976), between implementations that have a colour of their own; 2.3 is just noticeable
FURTHER_APART = 15.0  # between any two
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = XYZ @ np.ones(3)  # D65


def linear(colour):
    """Return a "#rrggbb" as linear sRGB, (3,) (IEC 61966-2-1)."""
    values = np.array([int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(first, other):
    """Return the contrast of two colours as WCAG defines it, 1 to 21."""
    dark, light = sorted(float(XYZ[1] @ linear(colour)) for colour in (first, other))
    return (light + 0.05) / (dark + 0.05)


def lab(colour):
    """Return linear sRGB in CIELAB."""
    ratio = XYZ @ np.clip(colour, 0, 1) / WHITE
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def closest(colours, matrix):
    perceived = [lab(matrix @ linear(colour)) for colour in colours]
    return min(float(np.linalg.norm(first - other)) for first, other in itertools.combinations(perceived, 2))


def variables():
    """Return the colours of style.css by scheme and name."""
    text = (TEMPLATES / "static" / "style.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in text.split("@media", 2)[:2])
    return {"light": light, "dark": light | dark}


SCHEMES = variables()
ALL = colours_of((*COLOURS, "a", "b", "c"))
MARKS = {name: colour for name, colour in SCHEMES["light"].items() if name.startswith("mark-")}
HEXADECIMAL = re.compile(r"#(?:[0-9a-f]{6}|[0-9a-f]{3})\b(?!-)|\brgba?\(|\bhsla?\(", re.IGNORECASE)
BADGE = outside.GREY  # behind white text, as badges have it everywhere; nothing of a page


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("ground", ["ground", "card"])
def test_drawing_can_be_seen(scheme, ground):
    colours = SCHEMES[scheme]
    for colour in (colours["edge"], colours["focus"], *MARKS.values(), *ALL.values()):
        assert contrast(colour, colours[ground]) >= GRAPHICS, colour


@pytest.mark.parametrize("sight", SIMULATED)
def test_implementations_differ_for_everybody(sight):
    assert closest(COLOURS.values(), SIMULATED[sight]) >= APART
    assert closest(ALL.values(), SIMULATED[sight]) >= FURTHER_APART


@pytest.mark.parametrize("sight", SIMULATED)
def test_marks_differ_for_everybody(sight):
    assert closest(MARKS.values(), SIMULATED[sight]) >= FURTHER_APART
    assert (
        closest((MARKS["mark-blue"], MARKS["mark-orange"]), SIMULATED[sight]) >= APART
    )  # before and after, good and bad
    for scheme in SCHEMES.values():  # adjusted values lie on those that are as measured, which may be flagged
        for other in ("link", "slower"):
            assert closest((MARKS["mark-violet"], scheme[other]), SIMULATED[sight]) >= FURTHER_APART


def named_colours(path):
    """Return the colours that a file names itself. Of a style sheet those of its rules, no selector such as #abc."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        text = " ".join(re.findall(r":[^;{}]*[;}]", text))
    return {match.lower() for match in HEXADECIMAL.findall(text)}


FILES = [path for path in TEMPLATES.rglob("*") if path.suffix in (".css", ".js", ".html") and path.name != "style.css"]
FILES += sorted(Path(plot.__file__).parent.glob("*.py"))


def test_colours_are_those_of_the_style():
    """Style sheets and scripts use style.css's variables. Python, which draws without it, the same colours."""
    allowed = {*SCHEMES["light"].values(), *SCHEMES["dark"].values(), *ALL.values(), BADGE}
    unlisted = {
        path.name: named_colours(path) - (allowed if path.suffix in (".py", ".html") else set()) for path in FILES
    }
    assert {name: named for name, named in unlisted.items() if named} == {}
    assert set(MARKS.values()) <= set(ALL.values())


# ---- style sheets -----------------------------------------------------------------------------------------------

STATIC = TEMPLATES / "static"
TOOLS = Path(__file__).parents[2] / "tools"


def rules(path):
    """Return the rules of a style sheet without comments, those inside of @media, too, as selector and declarations."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [(selector.strip(), body.strip()) for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", text)]


def test_style_has_no_unused_class():
    selectors = [selector for path in STATIC.glob("*.css") for selector, _ in rules(path)]
    styled = {name.replace("\\", "") for name in re.findall(r"\.(-?[A-Za-z_](?:[\w-]|\\/)*)", " ".join(selectors))}
    sources = [
        *TEMPLATES.glob("*.html"),
        *STATIC.glob("*.js"),
        *TOOLS.rglob("*.py"),
        report.UPLOT / report.UPLOT_FILES[0],
    ]
    words = {word for path in sources for word in re.findall(r"[\w/-]+", path.read_text(encoding="utf-8"))}
    assert len(styled) > 100
    assert styled <= words


def test_style_repeats_no_rule():
    shared = set(rules(STATIC / "style.css"))
    again = [(path.name, rule) for path in STATIC.glob("*.css") if path.name != "style.css" for rule in rules(path)]
    assert [rule for rule in again if rule[1] in shared] == []
