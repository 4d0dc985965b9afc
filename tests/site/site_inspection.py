"""A reader that cannot be pleased: opens pages of a site in Chromium, and says what is wrong with each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.site.browser import opened

PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}
FEW = 3  # pages of each kind that are read, where all that is new is what all of a kind show
LOCAL = ("file:", "data:", "blob:", "about:")
SETTLED = (
    """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60))))"""
)
FACTS = """() => ({
  title: document.title, headings: document.querySelectorAll("h1").length,
  main: document.querySelectorAll("main").length,
  heading: (document.querySelector("h1") || {innerText: ""}).innerText.trim(),
  links: [...document.querySelectorAll("a[href]")].map((link) => link.getAttribute("href")),
  ids: [...document.querySelectorAll("[id]")].map((item) => item.id),
  background: getComputedStyle(document.body).backgroundColor, text: document.body.textContent,
  pwned: window.pwned ?? null, handlers: document.querySelectorAll("[onerror], [onload], [onclick], main img").length,
})"""
# What reaches beyond the window and is not inside something that scrolls; the innermost of it comes last
TOO_WIDE = """(width) => {
  const cuts = (item) => /auto|scroll|hidden|clip/.test(getComputedStyle(item).overflowX);
  const scrolls = (item) => item && (cuts(item) || scrolls(item.parentElement));
  const said = (item) => `${item.tagName.toLowerCase()}.${item.className}: ${item.textContent.trim().slice(0, 40)}`;
  const wide = (item) => item.getBoundingClientRect().left + Math.max(item.scrollWidth, item.offsetWidth) > width + 1;
  return [...document.querySelectorAll("body *")].filter((item) => wide(item) && !scrolls(item)).slice(-3).map(said);
}"""


@dataclass
class Reader:
    """A tab without a network, and all that was complained about while it was open."""

    tab: object
    complaints: list[str] = field(default_factory=list)
    pages: dict[str, dict] = field(default_factory=dict)  # file name -> its FACTS

    def read(self, out: Path, name: str) -> dict:
        """Open a page in light, dark, on a desk and on a phone. Return its facts."""
        self.at = name
        self.tab.emulate_media(color_scheme="light")
        self.tab.set_viewport_size(DESK)
        self.tab.goto((out / name).as_uri())
        self.tab.evaluate(SETTLED)
        facts = self.tab.evaluate(FACTS)
        self._judge(out, name, facts)
        self.tab.emulate_media(color_scheme="dark")
        if self.tab.evaluate(FACTS)["background"] == facts["background"]:
            self.say("the same background in the dark")
        self.tab.set_viewport_size(PHONE)
        self.tab.evaluate(SETTLED)
        width = self.tab.evaluate("document.documentElement.scrollWidth")
        if width > PHONE["width"]:
            self.say(f"{width} px wide on a phone: {self.tab.evaluate(TOO_WIDE, PHONE['width'])}")
        self.pages[name] = facts
        return facts

    def say(self, text: str) -> None:
        self.complaints.append(f"{self.at}: {text}")

    def crawl(self, out: Path, most: int | None = None) -> None:
        """Read every page that links lead to from the index on. Of a kind at most so many."""
        waiting, reached, kinds = ["index.html"], {"index.html"}, Counter()
        while waiting:
            facts = self.read(out, waiting.pop())
            for target in map(target_of, facts["links"]):
                if target not in reached and target.endswith(".html") and (out / target).is_file():
                    reached.add(target)
                    kinds[kind_of(target)] += 1
                    if most is None or kinds[kind_of(target)] <= most:
                        waiting.append(target)

    def _judge(self, out: Path, name: str, facts: dict) -> None:
        if not facts["title"].removesuffix("· kernel-velocity").strip():
            self.say("no title")
        if facts["headings"] != 1 or not facts["heading"]:
            self.say(f"{facts['headings']} h1, wanted one with words")
        if facts["main"] != 1:
            self.say(f"{facts['main']} main")
        if facts["pwned"] is not None or facts["handlers"]:
            self.say(f"a name became code: pwned={facts['pwned']}, {facts['handlers']} elements")
        for href in dict.fromkeys(facts["links"]):
            self._follow(out, name, href, facts["ids"])

    def _follow(self, out: Path, name: str, href: str, ids: list[str]) -> None:
        target = target_of(href)
        if urlsplit(href).scheme:
            self.say(f"a link leads elsewhere: {href}")
        elif target and not (out / target).is_file():
            self.say(f"a link leads nowhere: {href}")
        elif href.startswith("#") and len(href) > 1 and "=" not in href and unquote(href[1:]) not in ids:
            self.say(f"no such place on the page {name}: {href}")


def target_of(href: str) -> str:
    """Return the file that a link names. "" for a place on the page itself."""
    return unquote(urlsplit(href).path) if not urlsplit(href).scheme else ""


@contextmanager
def reading(browser) -> Iterator[Reader]:
    """A reader with a new tab of a browser. Whatever is asked of a network is refused, and told."""
    with opened(browser, DESK) as tab:
        reader = Reader(tab=tab)
        reader.at = ""

        def refuse(route):
            reader.say(f"asked for {route.request.url}")
            route.abort()

        tab.route(re.compile(f"^(?!{'|'.join(LOCAL)})"), refuse)

        def listen(message):
            if message.type in ("error", "warning"):
                reader.say(f"console: {message.text} {message.location['url'].rpartition('/')[2]}")

        tab.on("console", listen)
        tab.on("pageerror", lambda error: reader.say(f"error: {error}"))
        yield reader


def kind_of(name: str) -> str:
    """Return the kind of a page: "commit" of "commit-12345678.html"."""
    return re.split(r"[-.]", name, maxsplit=1)[0]
