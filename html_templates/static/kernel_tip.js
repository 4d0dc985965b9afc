// The commit under the pointer, or reached with the arrow keys: a line, a dot for each implementation, and their values as
// text. It is HTML over the canvas: drawing 100,000 points again at every move would be slow.
"use strict";

/** Returns a commit's hash, which links to its page, its message, author and date. */
function commitHead(commit) {
  const when = commit.date.slice(0, 16).replace("T", " ");
  const subject = span("subject", foreign(commit.subject || "(no message)"));
  return [commitLink(commit), " ", subject, " ", span("who", foreign(`${commit.author}, ${when}`))];
}

/** Starts the tip of a chart on its stage; returns {hide}. */
function startTip(stage, chart) {
  const NEAR = 10; // px around the head of a finding that a click counts for
  const DRAG = 5; // px: a press that moved further is no click
  const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };
  const [host, cursor, tip] = [".chart", ".cursor", ".tip"].map((name) => stage.querySelector(name));
  let shown = null; // x

  const inView = () => (chart.model === null ? [0, 0] : Trend.inView(chart));

  /** Returns where the view of the chart begins on the stage, px. */
  function origin() {
    const [box, outer] = [chart.view.el, stage].map((element) => element.getBoundingClientRect());
    return { left: box.x - outer.x, top: box.y - outer.y };
  }

  /** Returns the frame of the chart on the stage, px. */
  function frameBox() {
    const { left, right, top, bottom } = chart.view.frame.bbox;
    const at = origin();
    return { left: left + at.left, right: right + at.left, top: top + at.top, bottom: bottom + at.top };
  }

  /** Returns the pixel of a point on the stage. */
  function pixel(x, y) {
    const { left, top } = origin();
    const { x_scale: across, y_scale: up } = chart.view.frame;
    return { x: across.compute(x) + left, y: up.compute(y) + top };
  }

  /** Returns where an event is on the stage, px. */
  function pointer(event) {
    const { x, y } = stage.getBoundingClientRect();
    return { x: event.clientX - x, y: event.clientY - y };
  }

  function show(x) {
    shown = x;
    cursor.hidden = tip.hidden = x === null;
    if (x === null) return;
    const lines = chart.model.lines.filter((line) => line.visible);
    const marks = chart.model.marksAt(x).map(({ kind, page, text }) => make("p", { class: `mark ${kind}` },
      page ? make("a", { href: page }, foreign(text)) : foreign(text)));
    tip.replaceChildren(make("p", { class: "commit" }, ...commitHead(chart.model.commits[x])), ...lines.map((line) => figures(line, x)), ...marks);
    const { left, right, top, bottom } = frameBox();
    const { x: across } = pixel(x, 0);
    const dots = lines.filter((line) => !Number.isNaN(line.y[x])).map((line) => {
      const at = pixel(x, line.y[x]);
      return make("span", { class: "dot", style: `left: ${at.x}px; top: ${at.y}px; background: ${line.colour}` });
    });
    cursor.replaceChildren(make("span", { class: "line", style: `left: ${across}px; top: ${top}px; height: ${bottom - top}px` }), ...dots);
    // On the side with more room; on a narrow screen the style puts it below
    const isLeft = across > (left + right) / 2;
    const room = isLeft ? across : stage.clientWidth - across;
    tip.style.left = isLeft ? "" : `${across + 14}px`;
    tip.style.right = isLeft ? `${stage.clientWidth - across + 14}px` : "";
    tip.style.top = `${top + 6}px`;
    tip.style.maxWidth = `min(25rem, ${Math.max(room - 20, 180)}px)`;
  }

  function figures(line, x) {
    const { value, interval, rounds, change, flags } = line.describe(x);
    const swatch = make("span", { class: `swatch ${line.dash}`, style: `background: ${line.colour}` });
    const block = make("p", { class: "figures" }, swatch, " ", span("name", foreign(line.name)), " ", make("strong", {}, value));
    const details = [interval, rounds, change].filter(Boolean).join(" · ");
    if (details) block.append(span("more", details));
    if (flags) block.append(span("flags", foreign(flags)));
    return block;
  }

  /** Returns the x of the commit under a pointer; null outside the frame. */
  function commitUnder(event) {
    const [first, last] = inView();
    const { left, right, top, bottom } = frameBox();
    const { x, y } = pointer(event);
    if (first >= last || x < left || x > right || y < top || y > bottom) return null;
    return Math.min(Math.max(Math.round(chart.view.frame.x_scale.invert(x - origin().left)), first), last - 1);
  }

  /** Returns the page of the finding whose head is under a pointer. */
  function findingUnder(event) {
    const { x, y, page } = chart.sources.get("heads").data;
    const at = pointer(event);
    return page[Array.from(x).findIndex((_, index) => {
      const head = pixel(x[index], y[index]);
      return Math.hypot(head.x - at.x, head.y - at.y) <= NEAR;
    })];
  }

  host.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") show(commitUnder(event));
  });
  stage.addEventListener("pointerleave", () => { if (!host.matches(":focus-visible")) show(null); });
  host.addEventListener("keydown", (event) => {
    if (event.composedPath().some((part) => part.classList?.contains("bk-Toolbar"))) return; // its buttons take keys
    const [first, last] = inView();
    const step = KEYS[event.key];
    if (event.key === "Escape") show(null);
    else if (event.key === "Enter" && shown !== null) window.location.href = chart.model.commits[shown].page;
    else if (step !== undefined && first < last) {
      const from = shown ?? (step < 0 ? last : first - 1);
      show(Math.min(Math.max(from + step, first), last - 1));
      event.preventDefault();
    }
  });
  let pressed = null;
  host.addEventListener("pointerdown", (event) => { pressed = { ...pointer(event), shown }; });
  host.addEventListener("click", (event) => {
    const { x, y } = pointer(event);
    if (pressed === null || Math.hypot(x - pressed.x, y - pressed.y) > DRAG) return;
    const finding = findingUnder(event);
    const commit = commitUnder(event);
    if (finding) window.location.href = finding;
    else if (commit === null) show(null);
    // A finger cannot hover: its first touch shows the commit, the second opens it
    else if (event.pointerType === "touch" && pressed.shown !== commit) show(commit);
    else window.location.href = chart.model.commits[commit].page;
  });
  return { hide: () => show(null) };
}
