"""The colours and line dashes of implementations, in charts of every kind. Pure."""

from __future__ import annotations

from collections import Counter

# Four hues that keep a contrast of 3:1 on white and on near-black alike (WCAG's bound for graphics) and that people who
# see no red or no green tell apart (tests/site/test_charts.py; found by a search over what the contrast leaves: 40 of
# CIELAB at least, where violet and blue of one lightness were 1 apart). A further implementation starts over.
COLOURS = {"eager": "#c87418", "compile": "#5a57f2", "native": "#2f846c", "triton": "#2f90cc"}
_OTHERS = ("#d8245f", "#9c6c30", "#80849a")
SOLID = "solid"
# Of the first line of a colour, the second and so on; style.css has the same for swatches
_DASHES = (SOLID, "dashed", "dotted", "dotdash")


def colours(implementations: tuple[str, ...]) -> dict[str, str]:
    """Return the colour of every implementation, known ones first. A known one has the same colour on every page."""
    others = [name for name in implementations if name not in COLOURS]
    usual = {name: colour for name, colour in COLOURS.items() if name in implementations}
    return usual | {name: _OTHERS[index % len(_OTHERS)] for index, name in enumerate(others)}


def dashes(implementations: tuple[str, ...]) -> dict[str, str]:
    """Return the dashes of every implementation's line: no two lines of one colour have the same."""
    used: Counter[str] = Counter()
    patterns = {}
    for name, colour in colours(implementations).items():
        patterns[name] = _DASHES[used[colour] % len(_DASHES)]
        used[colour] += 1
    return patterns
