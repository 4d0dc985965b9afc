// The commit under the pointer, or reached with the arrow keys: its values as text; and what clicks, drags and keys do.
"use strict";

/** Starts the tip of the charts on a stage. `goTo` changes the commits in the address: {from, to, commit}. */
function startTip(stage, goTo) {
  const NEAR = 10; // px around the head of a finding that a click counts for
  const DRAG = 5; // px: a press that moved further is no click
  const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };
  const tip = stage.querySelector(".tip");
  let panels = [];
  let shown = null; // {panel, at}
  let pressed = null; // the panel that a drag began on; the others follow it
  let wanted = null; // place that a key moves to: several can share a pixel

  const name = ({ model }, at) => model.commits[at]?.sha.slice(0, 8) ?? "";
  const panelOf = ({ target }) => panels.find(({ host }) => host.contains(target));

  function figures({ dash, colour, name, describe }, at) {
    const { value, details, flags } = describe(at);
    const swatch = make("span", { class: `swatch ${dash}`, style: `background: ${colour}` });
    return make("p", { class: "figures" }, swatch, " ", span("name", foreign(name)), " ", make("strong", {}, value),
      ...(details ? [span("more", details)] : []), ...(flags ? [span("flags", foreign(flags))] : []));
  }

  function show(panel, at) {
    const { chart, model } = panel;
    shown = { panel, at };
    tip.hidden = false;
    tip.classList.toggle("pinned", at === model.chosen);
    tip.replaceChildren(
      make("p", { class: "commit" }, ...commitHead(model.commits[at])),
      ...model.lines.filter((line) => line.visible).map((line) => figures(line, at)),
      ...model.marksAt(at).map(({ kind, page, text }) => make("p", { class: `mark ${kind}` }, page ? make("a", { href: page }, foreign(text)) : foreign(text))),
    );
    // On the side with more room; on a narrow screen the style puts it below
    const [box, outer] = [chart.over, stage].map((element) => element.getBoundingClientRect());
    const across = box.x - outer.x + chart.valToPos(model.x[at], "x");
    tip.classList.toggle("left", across > outer.width / 2);
    tip.style.cssText = `--across: ${across}px; top: ${box.y - outer.y + 6}px`;
  }

  function hide() {
    shown = null;
    tip.hidden = true;
  }

  /** Shows the chosen commit, or none. */
  function rest() {
    const [first] = panels;
    hide();
    if (first !== undefined && first.model.chosen !== null) show(first, first.model.chosen);
  }

  /** Returns the page of the finding whose head is under a pointer. */
  function findingUnder({ chart, model }, { clientX, clientY }) {
    const { left, top } = chart.ctx.canvas.getBoundingClientRect();
    const isNear = ({ head: { x, y } }) => Math.hypot(x / uPlot.pxRatio + left - clientX, y / uPlot.pxRatio + top - clientY) <= NEAR;
    return model.marks.finding.find(isNear)?.page;
  }

  stage.addEventListener("pointerleave", () => { if (!stage.querySelector(".chart:focus-visible")) rest(); });
  stage.addEventListener("pointerdown", (event) => { pressed = panelOf(event); });
  stage.addEventListener("click", (event) => {
    const panel = panelOf(event);
    if (panel === undefined || panel.model.commits.length === 0) return;
    const { chart, model } = panel;
    const page = findingUnder(panel, event);
    if (page) window.location.href = page;
    else if (chart.over.contains(event.target)) {
      const at = chart.posToIdx(event.clientX - chart.over.getBoundingClientRect().left);
      if (at === model.chosen) window.location.href = model.commits[at].page;
      else goTo({ commit: name(panel, at) });
    }
  });
  stage.addEventListener("keydown", (event) => {
    const panel = panelOf(event);
    if (panel === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    const { chart, model } = panel;
    const [first, last] = Trend.inView(chart, model);
    const at = shown?.panel === panel ? shown.at : null;
    const step = KEYS[event.key];
    const zoom = { "+": 4, "-": 1 }[event.key];
    if (event.key === "Escape") {
      hide();
      if (model.chosen !== null) goTo({ commit: "" });
    }
    if (event.key === "0") goTo({ from: "", to: "" });
    else if (event.key === "Enter" && at !== null) window.location.href = model.commits[at].page;
    else if (zoom !== undefined && first < last) {
      const [middle, reach] = [at ?? Math.round((first + last) / 2), Math.ceil((last - first) / zoom)];
      goTo({ from: name(panel, Math.max(middle - reach, 0)), to: name(panel, Math.min(middle + reach, model.commits.length - 1)) });
    } else if (step !== undefined && first < last) {
      wanted = Math.min(Math.max((at ?? (step < 0 ? last : first - 1)) + step, first), last - 1);
      chart.setCursor({ left: chart.valToPos(model.x[wanted], "x"), top: chart.over.clientHeight / 2 });
      wanted = null;
      event.preventDefault();
    }
  });

  return {
    /** Takes the charts that were drawn. */
    restart(drawn) {
      panels = drawn;
      queueMicrotask(rest); // uPlot knows where a commit lies only once it has drawn, which it does in one of these
    },
    /** Returns what uPlot is to do with the pointer on a panel. */
    events: (panel) => ({
      cursor: {
        drag: { x: true, y: false, setScale: false, dist: DRAG }, bind: { dblclick: () => () => null },
        sync: { key: "cases", scales: ["x", null] },
      },
      hooks: {
        setCursor: [({ cursor: { idx } }) => {
          const at = wanted ?? idx;
          if ((at ?? null) !== null && panel.chart && (wanted !== null || panel.host.matches(":hover"))) show(panel, at);
        }],
        setSelect: [(chart) => {
          const { left, width } = chart.select;
          if (width === 0 || panel !== pressed) return;
          chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          goTo({ from: name(panel, chart.posToIdx(left)), to: name(panel, chart.posToIdx(left + width)) });
        }],
      },
    }),
  };
}
