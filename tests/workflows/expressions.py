"""The conditions of our workflows, evaluated for an event: the part of GitHub's expressions that they use.

Comparison of strings ignores case, an absent name is null, `.*` maps over a list, and always() is true.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

TOKEN = re.compile(r"'(?:[^']|'')*'|&&|\|\||==|!=|[()!,]|[A-Za-z_][\w.*-]*|\s+|.")
OPERATORS = {"&&": " and ", "||": " or ", "!": " not ", "==": "==", "!=": "!=", "(": "(", ")": ")", ",": ","}


class Text(str):
    """A string that compares as GitHub's do."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.lower())


def value(name: str, contexts: Mapping[str, Any]) -> Any:
    """Return what a dotted name stands for. None where there is no such thing."""
    result: Any = contexts
    for part in name.split("."):
        if part == "*":
            continue
        if isinstance(result, list):
            result = [entry.get(part) for entry in result]
        else:
            result = result.get(part) if isinstance(result, Mapping) else None
    return Text(result) if isinstance(result, str) else result


def holds(condition: str, contexts: Mapping[str, Any]) -> bool:
    """Return whether a job with this `if:` runs.

    Raises:
        ValueError: the condition uses something that is not known here.
    """
    python = "".join(_translated(token) for token in TOKEN.findall(condition.strip()))
    names = {
        "value": lambda name: value(name, contexts),
        "Text": Text,
        "contains": lambda values, value: value in [Text(entry) for entry in values or ()],
        "always": lambda: True,
        "__builtins__": {},
    }
    return bool(eval(python, names))  # the text is our own workflow's, token by token translated


def _translated(token: str) -> str:
    if token.isspace():
        return " "
    if token in OPERATORS:
        return OPERATORS[token]
    if token[0] == "'":
        return f"Text({token[1:-1].replace(chr(39) * 2, chr(39))!r})"
    if token in ("contains", "always"):
        return token
    if re.match(r"[A-Za-z_]", token):
        return f"value({token!r})"
    raise ValueError(f"{token!r} is unknown here: extend {__name__}")
