"""Decide which direction of a series' values is better: for pages, nights, findings and exports. Pure.

It is stated, or follows from the unit and the name of the benchmark. A unit that is a rate or a time decides, then a
word of the name such as "throughput" or "latency", then a weak sign such as the unit "x" or the word "size". Where
nothing tells, or weak signs contradict each other, neither direction is better.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

from kernel_velocity import units
from kernel_velocity.names import COUNTS, MIX


class Better(StrEnum):
    """Which values of a series are the better ones."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"  # or nobody knows


class _Sign(NamedTuple):
    better: Better
    is_strong: bool


_MORE, _LESS = _Sign(Better.HIGHER, True), _Sign(Better.LOWER, True)
_RATHER_MORE, _RATHER_LESS = _Sign(Better.HIGHER, False), _Sign(Better.LOWER, False)

_TYPES = ("time", "memory", "peakmemory")  # asv's, of which less is better; and how it names such benchmarks:
_TYPED = re.compile(r"(^|\.)((time(raw)?|(peak)?mem)_|(Time(raw)?|(Peak)?Mem)[A-Z_])[^.]*$")
# Sizes of a machine's caches, figures of compiled code whose growth alone is no harm, and counts, which are no speed
_NEUTRAL = re.compile(
    r"\.(Cpu|Cuda)\.track_(code_bytes|shared_bytes|stack_bytes|barriers|(scalar_)?registers|l\d_size|"
    rf"{'|'.join((*COUNTS, *MIX))})$"
)
_STATED = re.compile(r"\b(?:(higher|more|larger|bigger|greater)|lower|less|smaller|fewer) is better\b", re.IGNORECASE)

_SIZE = r"(?:[kmgtpe]i?)?(?:bytes?|bits?|b)"
_SECONDS = r"(?:[mun]|milli|micro|nano)?(?:secs?|seconds?)|millis|micros|nanos|[mun]s"
_TIME = rf"{_SECONDS}|s|min|minutes?|h|hours?|days?"
_CLOCKS = r"cycles?|ticks?|clocks?|clks?"
_ENERGY = r"[mukg]?j|[kmg]?wh|joules?"
_HARM = r"errors?|errs?|loss(?:es)?|miss(?:es)?|faults?|failures?|stalls?|conflicts?|spills?|leaks?|drop(?:s|ped)?"
_WORK = rf"{_SIZE}|[kmgtpe]?(?:flop|op)s?|(?:item|image|token|sample|frame|request|req|iter|element|row|record)s?|it"
_PREFIXED = "[kmgtpe]?(?:flops|hz|bps|pps|rps|qps|tps|iops|ips|ups|lups|cups|teps)|[kmgtpe](?:i?bps|i?bs|ops)"


def _are(words: str) -> Callable[[str], re.Match[str] | None]:
    return partial(re.fullmatch, words)  # compiled when it is first asked: series of time ask none


# Words of names, and of units that are no ratio
_SIGNS = (
    (_are(f"{_PREFIXED}|fps|ipc|throughputs?|bandwidths?|bw|goodput|speed|speedups?|efficiency|utili[sz]ation"), _MORE),
    (_are("occupancy|hits?|accuracy|scores?|coverage|recall|success(?:es)?"), _MORE),
    (_are(f"{_SECONDS}|times?|runtimes?|walltimes?|durations?|elapsed|latenc(?:y|ies)|delays?|ttft|tpot"), _LESS),
    (_are(f"{_HARM}|cycles?|ticks?|jitter|overheads?|slowdowns?|regressions?|waste|evictions?|retries"), _LESS),
    (_are("rmse|mse|mae|ulps?|perplexity|deviation|footprint|contention|fragmentation|imbalance|divergence"), _LESS),
    (_are("rates?|perf|performance|peak|roof|roofline"), _RATHER_MORE),
    (
        _are("[kmgt]i?b|bytes?|sizes?|mem|memory|rss|vram|usage|energy|costs?|instructions?|alloc(ation)?s?"),
        _RATHER_LESS,
    ),
)
_IS_TIME, _IS_WORK, _IS_HARM = _are(f"{_TIME}|{_ENERGY}"), _are(_WORK), _are(_HARM)
_IS_MEMORY = _are("bytes?|mem(ory)?")
_IS_SHARED = _are(f"{_SECONDS}|times?|bytes?|sizes?|mem(ory)?|usage")  # a share of it tells nothing
_IS_COST = _are(f"{_TIME}|times?|{_CLOCKS}|{_ENERGY}|{_SIZE}|memory|instructions?|alloc(?:ation)?s?")
_IS_PACE = _are(f"{_TIME}|times?|{_CLOCKS}|{_ENERGY}|w|watts?")  # of work per such a one, more is better
_IS_CHOSEN = _are("batch|cache|block|grid|tile|page|problem|sample")  # before "size"
_SHARE = re.compile(r"%|\b(percent|pct|fraction|ratio|share)\b")
# What follows is beside it
_AFTER = _are("of|to|in|at|for|with|under|vs|versus|over|against|on|by|from")


@lru_cache(maxsize=10_000)  # the same few names stand in every file
def better(benchmark: str, unit: str = "", kind: str = "", stated: Better | None = None) -> Better:
    """Return which direction is better.

    Args:
        benchmark: its name. unit: of its values. kind: asv's type of it. "": not known.
        stated: by its author, or by a repository's section. None: nothing is.
    """
    if stated is not None:
        return stated
    if words := _STATED.search(unit):
        return Better.HIGHER if words[1] else Better.LOWER
    if _NEUTRAL.search(benchmark):
        return Better.NEITHER
    if unit in ("", units.SECONDS, units.BYTES) and (kind in _TYPES or _TYPED.search(benchmark)):
        return Better.LOWER
    is_share = bool(_SHARE.search(unit.lower()))
    signs = [sign for sign in (_of_unit(unit), _of_words(_words(benchmark.rpartition(".")[2]), is_share)) if sign]
    strong = [sign for sign in signs if sign.is_strong]
    if strong:
        return strong[0].better
    return signs[0].better if len({sign.better for sign in signs}) == 1 else Better.NEITHER


def is_worse(direction: Better, effect: float) -> bool | None:
    """Return whether a change of a value's logarithm by `effect` is for the worse. None: neither direction is."""
    return None if direction is Better.NEITHER else (effect > 0) == (direction is Better.LOWER)


def _of_unit(unit: str) -> _Sign | None:
    """Return what a unit says. None: nothing."""
    plain = re.sub(r"\([^)]*\)|[][]", " ", unit).translate({ord("µ"): "u", ord("μ"): "u"}).strip()
    if re.fullmatch(r"x|×|times|-?fold", plain.lower()):
        return _RATHER_MORE
    plain = re.sub(r"[·*. ]?\b(s|sec|second)\s*(\^?-1|⁻¹)$", "/s", plain)
    top, slash, bottom = plain.partition("/")
    if slash:
        return _of_ratio(_words(top), _words(bottom), is_share=False)
    word = plain.lower()
    if _are(f"{_TIME}|{_CLOCKS}")(word):
        return _LESS
    if _are(f"{_SIZE}|{_ENERGY}")(word):
        return _RATHER_LESS
    return _of_words(_words(plain), bool(_SHARE.search(word)))


def _words(text: str) -> list[str]:
    """Return the words of a name in snake_case or camelCase, in lower case, without digits and signs."""
    text = re.sub(r"([KMGT])iB", r"\1IB", text)
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})(?!Bps)", " ", text)
    return re.findall("[a-z]+", apart.lower())


def _of_words(words: Sequence[str], is_share: bool) -> _Sign | None:
    """Return what the words of a name say: the last one that tells, of those before "of", "to", ... None: nothing."""
    if "per" in words[1:]:
        at = words.index("per", 1)
        return _of_ratio(words[:at], words[at + 1 :], is_share=is_share)
    if any(_IS_WORK(word) and after in ("s", "sec") for word, after in pairwise(words)):
        return _MORE
    at = next((number for number, word in enumerate(words) if _AFTER(word)), len(words))
    signs = [sign for part in (words[:at], words[at + 1 :]) if (sign := _of_phrase(part, is_share))]
    return next((sign for sign in signs if sign.is_strong), next(iter(signs), None))


def _of_phrase(words: Sequence[str], is_share: bool) -> _Sign | None:
    weak: set[_Sign] = set()
    for number, word in reversed([*enumerate(words)]):
        sign = next((sign for is_it, sign in _SIGNS if is_it(word)), None)
        is_chosen = word.startswith("size") and number > 0 and _IS_CHOSEN(words[number - 1])
        is_peak_memory = word == "peak" and any(map(_IS_MEMORY, words))
        if sign is None or is_chosen or is_peak_memory or (is_share and _IS_SHARED(word)):
            continue
        if sign.is_strong:
            return sign
        weak.add(sign)
    return weak.pop() if len(weak) == 1 else None


def _of_ratio(top: Sequence[str], bottom: Sequence[str], *, is_share: bool) -> _Sign | None:
    """Return what a ratio says, such as bytes per second, ns per operation, gigaflops per core."""
    if not bottom or not _IS_PACE(bottom[0]):
        return _LESS if top and _IS_COST(top[-1]) else _of_words(top, is_share)
    if any(map(_IS_HARM, top)):
        return _LESS
    return None if top and _IS_TIME(top[-1]) else _MORE
