"""CUDA source as C++: launches and variables in shared memory become calls. What else C++ lacks is refused."""

from __future__ import annotations

import re

COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", re.DOTALL)
# `extern __shared__ T name[];` and `__shared__ __align__(16) T name[2][3];`. T has no parenthesis or comma outside <>.
SHARED = re.compile(
    r"(?P<extern>extern\s+)?__shared__\s+(?:(?:__align__|alignas)\s*\(\s*(?P<alignment>\d+)\s*\)\s*)?"
    r"(?P<type>[A-Za-z_][\w:\s]*?(?:<[^<>;()]*>)?)\s*\b(?P<name>[A-Za-z_]\w*)\s*(?P<sizes>(?:\[[^\]]*\]\s*)*);"
)
REFUSED = re.compile(
    r"<<<|>>>|\b(?:__shared__|__constant__|__managed__|__cluster_dims__|asm|__asm__|cooperative_groups)\b"
)
OPENING, CLOSING = "([{", ")]}"


class RewritingError(Exception):
    """A source has what the rewriter does not know."""


def rewrite(source: str, name: str) -> str:
    """Return a CUDA source as C++ for the engine. Lines keep their numbers.

    Raises:
        RewritingError: something that neither C++ nor this rewriter knows. Says the line.
    """
    for step in (_launches, _shared_variables):
        source = step(source, name)
    left = REFUSED.search(_code(source))
    if left is not None:
        raise RewritingError(_at(source, name, left.start(), f"cannot rewrite {left.group()!r}"))
    return f'#line 1 "{name}"\n{source}'


def _code(source: str) -> str:
    """Return the source with blanks for comments and strings. Every character keeps its place."""
    return COMMENT_OR_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)


def _at(source: str, name: str, index: int, what: str) -> str:
    return f"{name}:{source.count(chr(10), 0, index) + 1}: {what}"


def _launches(source: str, name: str) -> str:
    """Rewrite each `kernel<<<grid, block, ...>>>(` to `Configuration(grid, block, ...).of(kernel)(`."""
    while (opening := _code(source).find("<<<")) >= 0:
        code = _code(source)
        begin = _begin_of_callee(code, opening)
        end = _end_of_configuration(code, opening + 3)
        if begin is None or end is None:
            raise RewritingError(_at(source, name, opening, "cannot read this launch"))
        kernel, configuration = source[begin:opening].strip(), source[opening + 3 : end]
        launch = f"cuda_on_host::Configuration({configuration}).of({kernel})"
        source = source[:begin] + launch + source[end + 3 :]
    return source


def _begin_of_callee(code: str, end: int) -> int | None:
    """Return where the name before `<<<` begins, with its template's arguments. None: there is no name."""
    last = end = len(code[:end].rstrip())
    if code[:end].endswith(">"):
        depth = 0
        for index in range(end - 1, -1, -1):
            depth += {">": 1, "<": -1}.get(code[index], 0)
            if depth == 0:
                last = index
                break
    name = re.search(r"[A-Za-z_][\w:]*$", code[:last])
    return name.start() if name and not name.group().startswith("return") else None


def _end_of_configuration(code: str, begin: int) -> int | None:
    """Return where the `>>>` is that ends a configuration, with an argument list behind it. None: nowhere."""
    depth = 0
    for index in range(begin, len(code)):
        character = code[index]
        if depth == 0 and re.match(r">>>\s*\(", code[index:]):
            return index
        depth += (character in OPENING) - (character in CLOSING)
        if depth < 0 or character == ";":
            return None
    return None


def _shared_variables(source: str, name: str) -> str:
    """Rewrite each variable in shared memory to a reference to the block's."""
    code, parts, end = _code(source), [], 0
    for match in SHARED.finditer(code):
        parts += [source[end : match.start()], _shared_variable(match, source, name)]
        end = match.end()
    return "".join([*parts, source[end:]])


def _shared_variable(match: re.Match[str], source: str, name: str) -> str:
    kind, variable, sizes = match["type"].strip(), match["name"], match["sizes"].strip()
    if (match["extern"] is not None) != (re.fullmatch(r"\[\s*\]", sizes) is not None):
        raise RewritingError(_at(source, name, match.start(), "dynamic shared memory is `extern __shared__ T name[]`"))
    lines = "\n" * match.group().count("\n")
    if match["extern"] is not None:
        return f"{kind}* const {variable} = static_cast<{kind}*>(cuda_on_host::dynamic_shared());{lines}"
    return f"auto& {variable} = cuda_on_host::shared<{kind}{sizes}, {match['alignment'] or 1}>([] {{}});{lines}"
