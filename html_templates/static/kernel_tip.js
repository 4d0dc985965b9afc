// What is shown of the commit under the pointer, or that the arrow keys reached: a line, a dot on each implementation,
// and its figures as text. HTML over the canvas: to draw 100,000 points anew at every move would be slow.
"use strict";

const KernelTip = (() => {
  const NEAR = 10; // px around the head of a finding that a click counts for
  const DRAG = 5; // px: a press that moved further was no click
  const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };

  const element = (tag, name, text) => make(tag, name ? { class: name } : {}, ...(text === undefined ? [] : [text]));

  /** Text of others: its direction must not reach beyond it. */
  const foreign = (name, text) => element("span", name, make("bdi", {}, text));

  /** Returns what a commit is called by: its hash, which leads to its page, its message, who made it and when. */
  function commitHead(commit) {
    const when = commit.date.slice(0, 16).replace("T", " ");
    const link = make("a", { class: "sha", href: commit.page }, commit.sha.slice(0, 8));
    return [link, " ", foreign("subject", commit.subject || "(no message)"), " ", foreign("who", `${commit.author}, ${when}`)];
  }

  /** Returns the place of the frame on the stage, px. */
  function frame(chart, stage) {
    const { left, right, top, bottom } = chart.view.frame.bbox;
    const box = chart.view.el.getBoundingClientRect();
    const host = stage.getBoundingClientRect();
    return { left: left + box.x - host.x, right: right + box.x - host.x, top: top + box.y - host.y, bottom: bottom + box.y - host.y, box, host };
  }

  function pixel(chart, stage, x, y) {
    const { box, host } = frame(chart, stage);
    const { x_scale: across, y_scale: up } = chart.view.frame;
    return { x: across.compute(x) + box.x - host.x, y: up.compute(y) + box.y - host.y };
  }

  /** Fills the tip: the commit, a block for each implementation shown, what is marked there. */
  function fill(tip, model, x) {
    const commit = model.commits[x];
    const head = make("p", { class: "commit" }, ...commitHead(commit));
    const lines = model.lines.filter((line) => line.visible).map((line) => figures(line.tell(x), line));
    const marks = model.at(x).map((mark) => {
      const said = element("p", `mark ${mark.kind}`);
      const text = foreign("", mark.text);
      if (!mark.page) return said.append(text), said;
      const more = element("a", "");
      more.href = mark.page;
      more.append(text);
      said.append(more);
      return said;
    });
    tip.replaceChildren(head, ...lines, ...marks);
  }

  function figures(said, line) {
    const block = element("p", "figures");
    const swatch = element("span", `swatch ${line.dash}`);
    swatch.style.background = line.colour;
    block.append(swatch, " ", foreign("name", line.name), " ", element("strong", "", said.value));
    const more = [said.interval, said.rounds, said.change].filter(Boolean).join(" · ");
    if (more) block.append(element("span", "more", more));
    if (said.flags) block.append(foreign("flags", said.flags));
    return block;
  }

  function dots(cursor, chart, stage, model, x) {
    const found = [];
    for (const line of model.lines) {
      if (!line.visible || Number.isNaN(line.y[x])) continue;
      const dot = element("span", "dot");
      const place = pixel(chart, stage, x, line.y[x]);
      dot.style.cssText = `left: ${place.x}px; top: ${place.y}px; background: ${line.colour}`;
      found.push(dot);
    }
    const rule = element("span", "line");
    const { top, bottom } = frame(chart, stage);
    rule.style.cssText = `left: ${pixel(chart, stage, x, 0).x}px; top: ${top}px; height: ${bottom - top}px`;
    cursor.replaceChildren(rule, ...found);
  }

  /** Puts the tip beside the line, on the side that has more room; on a narrow screen the style puts it below. */
  function place(tip, chart, stage, x) {
    const { left, right, top } = frame(chart, stage);
    const across = pixel(chart, stage, x, 0).x;
    const before = across > (left + right) / 2;
    tip.style.left = before ? "" : `${across + 14}px`;
    tip.style.right = before ? `${stage.clientWidth - across + 14}px` : "";
    tip.style.top = `${top + 6}px`;
    tip.style.maxWidth = `min(25rem, ${Math.max(before ? across - 20 : stage.clientWidth - across - 20, 180)}px)`;
  }

  /** Returns the commit under a pointer, one of those from `first` to before `last`; null beside the frame. */
  function under(chart, stage, event, [first, last]) {
    const { left, right, top, bottom, box, host } = frame(chart, stage);
    const [x, y] = [event.clientX - host.x, event.clientY - host.y];
    if (first >= last || x < left || x > right || y < top || y > bottom) return null;
    const nearest = Math.round(chart.view.frame.x_scale.invert(event.clientX - box.x));
    return Math.min(Math.max(nearest, first), last - 1);
  }

  /** Returns the page of the finding whose head is under a pointer. */
  function headUnder(chart, stage, event) {
    const host = stage.getBoundingClientRect();
    const { x, y, page } = chart.sources.get("heads").data;
    const index = Array.from(x).findIndex((_, at) => {
      const head = pixel(chart, stage, x[at], y[at]);
      return Math.hypot(head.x - event.clientX + host.x, head.y - event.clientY + host.y) <= NEAR;
    });
    return index < 0 ? undefined : page[index];
  }

  /** Starts the cursor of a chart on its stage; `inView` tells the commits that it may stand at. */
  function start(stage, chart, inView) {
    const [host, cursor, tip] = [".chart", ".cursor", ".tip"].map((name) => stage.querySelector(name));
    const state = { x: null };

    function show(x) {
      state.x = x;
      cursor.hidden = tip.hidden = x === null;
      if (x === null) return;
      fill(tip, chart.model, x);
      dots(cursor, chart, stage, chart.model, x);
      place(tip, chart, stage, x);
    }

    host.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "touch") show(under(chart, stage, event, inView()));
    });
    stage.addEventListener("pointerleave", () => { if (!host.matches(":focus-visible")) show(null); });
    host.addEventListener("keydown", (event) => press(event, chart, state, show, inView()));
    listenToClicks(stage, host, chart, state, show, inView);
    return { hide: () => show(null) };
  }

  /** Whether an event is about a button of the chart's toolbar, which answers to keys itself. */
  function isOfToolbar(event) {
    return event.composedPath().some((part) => part.classList?.contains("bk-Toolbar"));
  }

  function press(event, chart, state, show, [first, last]) {
    if (isOfToolbar(event)) return;
    if (event.key === "Escape") show(null);
    else if (event.key === "Enter" && state.x !== null) window.location.href = chart.model.commits[state.x].page;
    else if (event.key in KEYS && first < last) {
      const from = state.x ?? (KEYS[event.key] < 0 ? last : first - 1);
      show(Math.min(Math.max(from + KEYS[event.key], first), last - 1));
      event.preventDefault();
    }
  }

  function listenToClicks(stage, host, chart, state, show, inView) {
    let pressed = null;
    host.addEventListener("pointerdown", (event) => { pressed = { x: event.clientX, y: event.clientY, shown: state.x }; });
    host.addEventListener("click", (event) => {
      if (pressed === null || Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) > DRAG) return;
      const finding = headUnder(chart, stage, event);
      const x = under(chart, stage, event, inView());
      if (finding) window.location.href = finding;
      else if (x === null) show(null);
      // A finger cannot hover: its first touch shows, the second opens
      else if (event.pointerType === "touch" && pressed.shown !== x) show(x);
      else window.location.href = chart.model.commits[x].page;
    });
  }

  return { start, element, foreign, commitHead };
})();
