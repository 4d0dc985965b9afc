"""Badges: the newest figure of the best implementation of our own, in a picture as wide as its letters."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.site import badges, model
from kernel_velocity.site.report import page_templates
from tests import synthetic
from tests.findings import synthetic_extras
from tests.golden import check_golden

GOLDEN = Path(__file__).parent / "golden"


def drawn(results, repository):
    """Return the badges as text by file name."""
    templates = page_templates()
    return {
        made.name: templates.get_template(made.template).render(made.context)
        for made in badges.build(model.read(results, repository))
    }


def title(text):
    return ET.fromstring(text)[0].text


def test_every_kernel_and_device_has_one(whole_tree):
    tree = whole_tree
    found = drawn(tree.results, tree.repository)
    kernels = ("add_mul_exp", "matmul")
    assert set(found) == {f"badge-{kernel}-{device}.svg" for kernel in kernels for device in ("Cpu", "Cuda")}
    newest = tree.commits[-1][:8]
    wanted = (
        "matmul on Cuda: 2,500 GFLOPS · 4.1% of the roof "
        f"(native, float32-512x512x512, {synthetic_extras.OTHER}, commit {newest})"
    )
    assert title(found["badge-matmul-Cuda.svg"]) == wanted


def test_the_picture(tree, accept):
    found = drawn(tree.results, tree.repository)
    check_golden(GOLDEN / "badge.svg.txt", found["badge-matmul-Cpu.svg"], accept=accept)


def test_without_ceilings_it_says_the_change(tree):
    found = drawn(tree.results, tree.repository)["badge-add_mul_exp-Cpu.svg"]
    assert re.fullmatch(r"add_mul_exp on Cpu: 12\.5 GFLOPS · ≈ 0\.\d% (faster|slower) \(native, .*\)", title(found))
    assert badges.GROUND in found


@pytest.mark.parametrize(("factor", "ground"), [(0.5, badges.GROUNDS["faster"]), (2.0, badges.GROUNDS["slower"])])
def test_a_change_for_sure_has_its_colour(tree, factor, ground):
    for path in (tree.results / synthetic.MACHINE / "telemetry").glob(f"{tree.commits[-1][:8]}*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({**line, "e": factor * line["e"]}) + "\n" for line in lines))
    for path in (tree.results / synthetic.MACHINE).glob(f"{tree.commits[-1][:8]}*.json"):
        data = json.loads(path.read_text())
        for row in data["results"].values():
            row[0] = [value and factor * value for value in row[0]]
        path.write_text(json.dumps(data))
    assert ground in drawn(tree.results, tree.repository)["badge-matmul-Cpu.svg"]


def test_controls_are_not_ours(tree):
    for path in (tree.results / synthetic.MACHINE).glob("*-*.json"):
        data = json.loads(path.read_text())
        for row in data["results"].values():
            half = len(row[0]) // len(synthetic.IMPLEMENTATIONS)
            row[0][half:] = [float("nan")] * (len(row[0]) - half)  # only eager, the first of the axis, is left
        path.write_text(json.dumps(data))
    assert drawn(tree.results, tree.repository) == {}


def test_hostile_names_stay_text_in_a_valid_picture(hostile_tree):
    found = drawn(hostile_tree.results, hostile_tree.repository)
    assert len(found) == 4
    for text in found.values():
        root = ET.fromstring(text)
        assert {item.tag.rpartition("}")[2] for item in root.iter()} == {
            "svg",
            "title",
            "clipPath",
            "rect",
            "g",
            "text",
        }
        assert int(root.get("width")) < 500
    (longest,) = [text for name, text in found.items() if "add_mul_exp" in name and name.endswith("Cuda.svg")]
    shown = [item.text for item in ET.fromstring(longest).iter() if item.tag.endswith("}text")]
    assert shown[0].endswith("… Cuda")


@settings(max_examples=30)
@given(st.text(), st.text())
def test_a_text_is_as_wide_as_its_letters(one, other):
    assert badges.width(one + other) == badges.width(one) + badges.width(other) == badges.width(other + one)


def test_the_widths_are_those_of_the_font():
    matplotlib = pytest.importorskip("matplotlib")
    font = pytest.importorskip("fontTools.ttLib").TTFont(matplotlib.get_data_path() + "/fonts/ttf/DejaVuSans.ttf")
    cmap, metrics, whole = font.getBestCmap(), font["hmtx"], font["head"].unitsPerEm
    for letter in [*map(chr, range(32, 127)), *badges.SIGNS]:
        assert badges.width(letter) == round(1000 * metrics[cmap[ord(letter)]][0] / whole), letter
