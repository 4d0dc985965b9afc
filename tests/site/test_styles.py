"""The style sheets: no rule for a class that nothing has, and no rule of all pages again in that of one."""

import re
from pathlib import Path

from kernel_velocity.site.report import TEMPLATES

STATIC = TEMPLATES / "static"
TOOLS = Path(__file__).parents[2] / "tools"


def rules(path):
    """Return the rules of a style sheet without comments, those inside of @media, too, as selector and declarations."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [(selector.strip(), said.strip()) for selector, said in re.findall(r"([^{}]+)\{([^{}]*)\}", text)]


def test_every_class_of_a_rule_is_one_that_pages_have():
    selectors = [selector for path in STATIC.glob("*.css") for selector, _ in rules(path)]
    styled = {name.replace("\\", "") for name in re.findall(r"\.(-?[A-Za-z_](?:[\w-]|\\/)*)", " ".join(selectors))}
    sources = [*TEMPLATES.glob("*.html"), *STATIC.glob("*.js"), *TOOLS.rglob("*.py")]
    words = {word for path in sources for word in re.findall(r"[\w/-]+", path.read_text(encoding="utf-8"))}
    assert len(styled) > 100
    assert styled <= words


def test_no_page_says_again_what_the_style_of_all_pages_says():
    shared = set(rules(STATIC / "style.css"))
    again = [(path.name, rule) for path in STATIC.glob("*.css") if path.name != "style.css" for rule in rules(path)]
    assert [item for item in again if item[1] in shared] == []
