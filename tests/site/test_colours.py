"""Colours by computation: contrast on every ground, and charts for those who see no red, no green, or neither apart."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from kernel_velocity.lab import replay_page
from kernel_velocity.site import badges
from kernel_velocity.site.charts import palette
from kernel_velocity.site.report import TEMPLATES

TEXT, GRAPHICS = 4.5, 3.0  # contrast that WCAG 2.2 wants (1.4.3 and 1.4.11, level AA)
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
    values = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """Return the contrast of two colours as WCAG defines it, 1 to 21."""
    dark, light = sorted(float(XYZ[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(colour):
    """Return linear sRGB in CIELAB."""
    ratio = XYZ @ np.clip(colour, 0, 1) / WHITE
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def closest(colours, matrix):
    seen = [lab(matrix @ linear(colour)) for colour in colours]
    return min(float(np.linalg.norm(one - other)) for one, other in itertools.combinations(seen, 2))


def variables():
    """Return the colours of style.css by scheme and name."""
    text = (TEMPLATES / "static" / "style.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in text.split("@media", 2)[:2])
    return {"light": light, "dark": light | dark}


SCHEMES = variables()
ALL = palette.colours((*palette.COLOURS, "a", "b", "c"))
MARKS = {name: colour for name, colour in SCHEMES["light"].items() if name.startswith("mark-")}
HEXADECIMAL = re.compile(r"#(?:[0-9a-f]{6}|[0-9a-f]{3})\b(?!-)|\brgba?\(|\bhsla?\(", re.IGNORECASE)
BADGE = badges.GREY  # behind white text, as badges have it everywhere; nothing of a page


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("ground", ["ground", "card", "shade"])
@pytest.mark.parametrize("name", ["ink", "muted", "link", "faster", "slower", "failed", "event"])
def test_text_can_be_read(scheme, ground, name):
    assert contrast(SCHEMES[scheme][name], SCHEMES[scheme][ground]) >= TEXT


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("hue", ["red", "amber", "green", "blue", "violet", "grey"])
def test_chips_can_be_read(scheme, hue):
    assert contrast(SCHEMES[scheme][hue], SCHEMES[scheme][f"{hue}-tint"]) >= TEXT


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("ground", ["ground", "card"])
def test_what_is_drawn_can_be_seen(scheme, ground):
    found = SCHEMES[scheme]
    for colour in (found["edge"], found["focus"], *MARKS.values(), *ALL.values()):
        assert contrast(colour, found[ground]) >= GRAPHICS, colour


@pytest.mark.parametrize("sight", SIMULATED)
def test_implementations_are_told_apart_by_everybody(sight):
    assert closest(palette.COLOURS.values(), SIMULATED[sight]) >= APART
    assert closest(ALL.values(), SIMULATED[sight]) >= FURTHER_APART


@pytest.mark.parametrize("sight", SIMULATED)
def test_other_marks_are_told_apart_too(sight):
    assert closest(MARKS.values(), SIMULATED[sight]) >= FURTHER_APART
    assert (
        closest((MARKS["mark-blue"], MARKS["mark-orange"]), SIMULATED[sight]) >= APART
    )  # before and after, good and bad
    assert closest(replay_page.COLOURS.values(), SIMULATED[sight]) >= APART
    for found in SCHEMES.values():  # adjusted values lie on those that are as measured, which may be flagged
        for other in ("link", "slower"):
            assert closest((MARKS["mark-violet"], found[other]), SIMULATED[sight]) >= FURTHER_APART


def named_colours(path):
    """Return the colours that a file names itself; of a style sheet those of its rules, no selector such as #abc."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        text = " ".join(re.findall(r":[^;{}]*[;}]", text))
    return {found.lower() for found in HEXADECIMAL.findall(text)}


FILES = [path for path in TEMPLATES.rglob("*") if path.suffix in (".css", ".js", ".html") and path.name != "style.css"]
FILES += sorted(Path(palette.__file__).parent.glob("*.py"))


def test_no_page_has_a_colour_of_its_own():
    """Style sheets and scripts use style.css's variables; Python, which draws without it, the same colours."""
    known = {*SCHEMES["light"].values(), *SCHEMES["dark"].values(), *ALL.values(), BADGE}
    own = {path.name: named_colours(path) - (known if path.suffix in (".py", ".html") else set()) for path in FILES}
    assert {name: found for name, found in own.items() if found} == {}
    assert set(MARKS.values()) <= set(ALL.values())


def test_a_colour_of_its_own_is_found(tmp_path):
    sheet = tmp_path / "page.css"
    sheet.write_text("#abc, #add p { color: var(--ink); }\n.a:hover { fill: #8A63D2; stroke: rgb(0 0 0 / 18%) }")
    assert named_colours(sheet) == {"#8a63d2", "rgb("}


def test_the_computation_finds_what_is_known():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert lab(linear("#ffffff")) == pytest.approx([100, 0, 0], abs=1e-6)
    assert lab(linear("#ff0000")) == pytest.approx([53.24, 80.09, 67.20], abs=0.01)
    for matrix in SIMULATED.values():
        assert matrix @ np.ones(3) == pytest.approx(np.ones(3), abs=1e-4)  # grey stays grey
    # violet and blue of one lightness, which charts were once drawn with
    assert closest(("#8a63d2", "#2f7fd0"), SIMULATED["deuteranopia"]) < 2.3
