// The chart of a kernel's page: puts data into Bokeh's document (site/charts/trend.py), and marks beside it.
// What it is given is ready; it decides what fits: which dots, labels and ticks, and how far the axes reach.
"use strict";

const Trend = (() => {
  const ROOM = 4.5; // px a commit: with less there is no room for dots and bars
  const DASH = 0.4; // commits on either side of a value without neighbours that its dash takes; 1 px at least
  const TICK = 44; // px that a label of the horizontal axis takes
  const LABEL = { changes: 84, foot: 15 }; // px that the label of a mark takes
  const HEAD = { offset: 12, letter: 7 }; // px: of a finding's label from its head, and what a letter of 12 px takes at most

  const HUES = { regression: "--slower", improvement: "--faster", environment: "--event", vanished: "--muted" }; // of findings

  /** Returns the document's sources and renderers by name, and those of implementations: [part, name, renderer]. */
  function parts(plot) {
    const sources = new Map(plot.renderers.map(({ data_source: source }) => [source.name, source]));
    const renderers = new Map(plot.renderers.map((renderer) => [renderer.name, renderer]));
    const drawn = plot.renderers
      .map((renderer) => [...renderer.name.split(/: (.*)/s).slice(0, 2), renderer])
      .filter(([part, , renderer]) => renderer !== undefined && part !== "label");
    return { sources, renderers, drawn };
  }

  /** Colours the marks, and fits the chart, which sets the colours of findings. */
  function paintMarks(chart) {
    const { colour } = ChartPaint;
    const { renderers } = chart;
    for (const [name, variable] of Object.entries({ tag: "--muted", environment: "--event", roof: "--ink", changes: "--ink" })) {
      renderers.get(name).glyph.line_color = { value: colour(variable) };
      renderers.get(`label: ${name}`).glyph.text_color = { value: colour(variable) };
    }
    chart.hues = Object.fromEntries(Object.entries(HUES).map(([kind, variable]) => [kind, colour(variable)]));
    fit(chart);
  }

  /** Makes the chart of a section; `moved` is called when another part of it comes into view. */
  async function create(host, item, moved) {
    const view = await ChartPaint.embed(item, host); // the host takes the keys
    const plot = view.model;
    const chart = { view, plot, ...parts(plot), model: null };
    ChartPaint.follow(plot, () => paintMarks(chart));
    const refit = oncePerFrame(() => {
      if (chart.model === null || extent(chart) === chart.fitted) return;
      fit(chart);
      moved();
    });
    const { start, end } = plot.x_range.properties; // a drag beyond an edge changes only one of them
    for (const property of [start, end, plot.properties.inner_width]) property.change.connect(refit);
    return chart;
  }

  /** Returns a function that has `act` called in the next frame, once however often it was asked for. */
  function oncePerFrame(act) {
    let frame = null;
    return () => {
      frame ??= window.requestAnimationFrame(() => { frame = null; act(); });
    };
  }

  /** Returns what a chart is fitted to, as a text. */
  function extent({ plot }) {
    return `${plot.x_range.start} ${plot.x_range.end} ${plot.inner_width}`;
  }

  /**
   * Shows a model: {lines: [{name, visible, y, low, high}], commits: [...], unit, scale, marks}. Arrays have one entry
   * for each commit of the axis; NaN is a value that is missing, and breaks the line.
   */
  function draw(chart, model, range) {
    chart.model = null; // so that the change of the range below is no reason to fit what was shown before
    const count = model.commits.length;
    const shown = new Set(model.lines.filter((line) => line.visible).map((line) => line.name));
    for (const [, name, renderer] of chart.drawn) renderer.visible = shown.has(name);
    chart.plot.left[0].axis_label = model.unit;
    const start = range === "all" ? -0.5 : Math.max(count - Number(range), 0) - 0.5;
    const end = Math.max(count, 1) - 0.5;
    chart.plot.x_range.setv({ start, end, reset_start: start, reset_end: end });
    chart.model = model;
    fit(chart);
  }

  /** Returns the commits in view: the first one, and the one behind the last. */
  function inView(chart) {
    const { start, end } = chart.plot.x_range;
    const count = chart.model.commits.length;
    return [Math.min(Math.max(Math.ceil(start), 0), count), Math.max(Math.min(Math.floor(end) + 1, count), 0)];
  }

  /** Fits dots, ticks, labels and the vertical axis to the commits in view. */
  function fit(chart) {
    if (chart.model === null) return;
    chart.fitted = extent(chart);
    const [first, last] = inView(chart);
    const room = width(chart) / Math.max(last - first, 1);
    const alone = room < ROOM ? Math.max(DASH, 1 / room) : 0;
    const indices = Array.from({ length: room < ROOM ? 0 : last - first }, (_, index) => first + index);
    const empty = { y: [], low: [], high: [], visible: false };
    for (const [part, name, renderer] of chart.drawn) {
      const line = chart.model.lines.find((each) => each.name === name && each.visible) ?? empty;
      const step = Math.max(Math.floor((last - first) / width(chart)), 1);
      const source = renderer.data_source;
      const spread = { first, last: Math.min(last, line.y.length), step, alone };
      if (part === "line") source.data = TrendShapes.path(line.y, spread);
      if (part === "band") source.data = TrendShapes.band(line, spread);
      if (part === "bars") {
        const pick = (of) => (line.visible ? indices.map((x) => of[x]) : []);
        source.data = { x: line.visible ? indices : [], y: pick(line.y), low: pick(line.low), high: pick(line.high) };
        renderer.glyph.line_width = { value: Math.min(Math.max(0.4 * room, 2), 5) };
      }
      if (part === "dots") renderer.glyph.size = { value: Math.min(Math.max(0.6 * room, 4), 8) };
    }
    fitTicks(chart, first, last);
    fitHeight(chart, first, last);
    fitMarks(chart, first, last);
  }

  function width(chart) {
    return Math.max(chart.plot.inner_width || 0, 200);
  }

  function fitTicks(chart, first, last) {
    const stride = Math.max(Math.ceil((last - first) / (width(chart) / TICK)), 1);
    const ticks = [];
    for (let x = first; x < last; x += stride) ticks.push(x);
    const axis = chart.plot.below[0];
    axis.major_label_overrides = new Map(ticks.map((x) => [x, chart.model.commits[x].sha.slice(0, 8)]));
    axis.ticker.ticks = ticks;
  }

  /** Fits the vertical axis to values; intervals of few rounds can be so wide that they would hide every step. */
  function fitHeight(chart, first, last) {
    let low = Infinity;
    let high = -Infinity;
    for (const line of chart.model.lines.filter((each) => each.visible)) {
      for (let x = first; x < last; x += 1) {
        const value = line.y[x];
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    if (!(high >= low)) [low, high] = [0, 1];
    if (chart.model.scale === "zero") low = 0;
    const room = (high - low || Math.abs(high) || 1);
    const start = chart.model.scale === "zero" ? 0 : low - 0.1 * room;
    chart.plot.y_range.setv({ start, end: high + 0.22 * room, reset_start: start, reset_end: high + 0.22 * room });
  }

  /** Returns the labels of marks (ascending in x), "" for those that would lie on the one before. */
  function thinned(chart, marks, distance) {
    const { start, end } = chart.plot.x_range;
    const scale = width(chart) / (end - start);
    const found = new Map();
    let taken = -Infinity;
    for (const mark of marks) {
      const fits = (mark.x - taken) * scale >= distance;
      found.set(mark, fits ? mark.label : "");
      if (fits) taken = mark.x;
    }
    return found;
  }

  /**
   * Returns where the labels of findings (ascending in x) have room: on the side away from the frame's nearer edge, else
   * on the other; "" for a label that another finding's line or label would cross on both.
   */
  function headed(chart, marks) {
    const { start, end } = chart.plot.x_range;
    const scale = width(chart) / (end - start);
    const at = marks.map((mark) => (mark.x - start) * scale);
    let taken = 0; // px up to which lines and labels stand
    return marks.map((mark, index) => {
      const room = HEAD.offset + HEAD.letter * mark.label.length;
      const fits = { right: (at[index + 1] ?? width(chart)) - at[index] >= room, left: at[index] - taken >= room };
      const sides = at[index] > width(chart) / 2 ? ["left", "right"] : ["right", "left"];
      const side = sides.find((each) => fits[each]);
      taken = at[index] + (side === "right" ? room : 0);
      return { ...mark, align: side === "left" ? "right" : "left", offset: side === "left" ? -HEAD.offset : HEAD.offset, label: side ? mark.label : "" };
    });
  }

  function fitMarks(chart, first, last) {
    const { marks } = chart.model;
    const { start: foot, end: top } = chart.plot.y_range;
    const seen = (mark) => mark.x > first - 1 && mark.x < last;
    const put = (name, shown, columns) => {
      const made = Object.entries(columns).map(([key, of]) => [key, shown.map(of)]);
      chart.sources.get(name).data = { x: shown.map((mark) => mark.x), ...Object.fromEntries(made) };
    };
    const atFoot = [...marks.tag, ...marks.environment].filter(seen).sort((one, other) => one.x - other.x);
    const footed = thinned(chart, atFoot, LABEL.foot);
    for (const kind of ["tag", "environment"]) {
      put(kind, atFoot.filter((mark) => mark.kind === kind), { y: () => foot, label: (mark) => footed.get(mark) });
    }
    const findings = marks.finding.filter(seen);
    const colour = (mark) => chart.hues[mark.what];
    put("finding", findings, { colour });
    put("heads", headed(chart, findings), {
      colour, y: () => top, page: (mark) => mark.page, label: (mark) => mark.label,
      align: (mark) => mark.align, offset: (mark) => mark.offset,
    });
    const changes = marks.changes.filter(seen);
    const named = thinned(chart, changes, LABEL.changes);
    put("changes", changes, { y: (mark) => mark.y, marker: (mark) => mark.marker, colour: (mark) => mark.colour, label: (mark) => named.get(mark) });
    const roofs = marks.roof.filter((mark) => mark.y <= top && mark.y >= foot);
    put("roof", roofs.map((mark) => ({ ...mark, x: chart.plot.x_range.start })), { y: (mark) => mark.y, label: (mark) => mark.label });
  }

  return { create, draw, inView };
})();
