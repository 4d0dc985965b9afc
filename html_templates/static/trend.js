// The chart of a kernel's page, drawn by uPlot: lines with their intervals, marks, the roof, the chosen commit.
"use strict";

/**
 * @typedef {{x: number[], commits: any[], lines: any[], marks: any, title: string, per: number, isTime: boolean, scale: string,
 *   view: [number, number], chosen: number | null}} Model  Arrays have one entry for each commit; null is missing.
 */
const Trend = (() => {
  const ROOM = 4.5; // px per commit below which dots are left out
  const TICK = 84; // px of a tick's label
  const STRIDES = [1, 2, 5].flatMap((factor) => [0, 1, 2, 3, 4, 5].map((power) => factor * 10 ** power)).sort((a, b) => a - b); // commits from a tick to the next
  const FAR = 2; // times the highest value, from which on a roof is named at the edge instead of drawn to scale
  const FONT = "Helvetica, Arial, sans-serif";
  const DASHES = { solid: [], dashed: [6, 4], dotted: [2, 3], dotdash: [2, 3, 7, 3] };
  const HUES = { regression: "--slower", improvement: "--faster", environment: "--event", vanished: "--muted", tag: "--muted" };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** Draws a model in an element, `height` px high; returns uPlot's chart. */
  function draw(host, /** @type {Model} */ model, height, { cursor, hooks }) {
    const lines = model.lines.filter((line) => line.visible);
    const ticks = { stroke: () => colour("--rule"), size: 5 };
    const axis = { ticks, stroke: () => colour("--muted"), font: `12px ${FONT}`, labelFont: `12px ${FONT}`, labelSize: 20 };
    return new uPlot({
      width: host.clientWidth, height, legend: { show: false }, padding: [22, 30, 0, 0],
      cursor: { y: false, points: { show: () => make("div", {}), size: 11 }, ...cursor },
      scales: {
        x: { time: model.isTime, auto: false, min: model.view[0], max: model.view[1], range: (_, min, max) => [min, max] },
        y: { distr: model.scale === "log" ? 3 : 1, range: (_, min, max) => heights(model, min, max) },
      },
      axes: [
        { ...axis, grid: { show: false }, size: 42, space: TICK, ...(model.isTime ? {} : { incrs: STRIDES,
          values: (_, splits) => splits.map((x) => model.commits[x]?.sha.slice(0, 8)) }) },
        { ...axis, grid: { stroke: () => colour("--rule"), width: 1 }, size: 58, space: 45, label: model.title,
          ...(model.scale === "log" && { splits: (u) => rounded(u.scales.y), filter: (_, splits) => splits }),
          values: (_, splits) => splits.map((value) => Numbers.tick(value / model.per)) },
      ],
      series: [{}, ...lines.map((line) => ({ stroke: line.colour, width: 1.8, dash: DASHES[line.dash], points: dotsOf(line, model, host.clientWidth) }))],
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
      hooks: {
        ...hooks,
        drawAxes: [(u) => { drawIntervals(u, lines); drawBehind(u, model); }],
        draw: [(u) => drawAbove(u, model)],
      },
    }, [model.x, ...lines.map((line) => line.y)], host);
  }

  /** Returns the dots of a line where there is room for them; of a dense one those of the values without neighbours. */
  function dotsOf(line, /** @type {Model} */ { x, view: [from, to] }, width) {
    const inside = [...x.keys()].filter((at) => line.y[at] !== null && x[at] >= from && x[at] <= to);
    const room = width / Math.max(x.filter((value) => value >= from && value <= to).length, 1);
    const isDense = room < ROOM;
    line.dots = isDense ? inside.filter((at) => (line.y[at - 1] ?? line.y[at + 1] ?? null) === null) : inside; // the commits that have one
    return {
      show: true, filter: () => line.dots, size: 1.5 + (isDense ? 3 : 2 * Math.min(Math.max(0.3 * room, 2), 4)), width: 1.5,
      fill: line.dash === "solid" ? line.colour : () => colour("--card"),
    };
  }

  /** Returns the ends of the vertical axis for the least and greatest value in view. Intervals may be cut off. */
  function heights({ scale, marks }, least, most) {
    if (least === null || !(most >= least)) return scale === "log" ? [1, 10] : [0, 1];
    const roof = marks.roof[0]?.y ?? most;
    if (scale === "log") return [Math.min(least, roof) / 1.15, Math.max(most, roof) * 1.25];
    const [low, high] = scale === "zero" ? [Math.min(least, 0), Math.max(most, 0, roof < FAR * most ? roof : 0)] : [least, most];
    const height = high - low || Math.abs(high) || 1;
    return [scale === "zero" && low === 0 ? 0 : low - 0.1 * height, high + 0.12 * height];
  }

  /** Returns round numbers for a logarithmic axis: of more than a decade 1, 2 and 5 times powers of ten. uPlot's begin at its end. */
  function rounded({ min, max }) {
    if (max / min <= 10) return Numbers.ticks(min, max, 6);
    const power = 10 ** Math.floor(Math.log10(min));
    return Array.from({ length: 60 }, (_, n) => [1, 2, 5][n % 3] * power * 10 ** Math.floor(n / 3)).filter((value) => value >= min && value <= max);
  }

  /** Returns the commits in view, the first and the one after the last, by their places. */
  function inView({ scales: { x: { min, max } } }, { x }) {
    const first = x.findIndex((value) => value >= min);
    const last = x.findLastIndex((value) => value <= max);
    return first < 0 || last < first ? [0, 0] : [first, last + 1];
  }

  /** Returns the px of the page for each commit in view. */
  const roomOf = (u, [first, last]) => u.bbox.width / uPlot.pxRatio / Math.max(last - first, 1);

  // ---- what uPlot does not draw. All in px of the canvas, of which `unit` are a px of the page ------------------------

  function frame(u) {
    const { left, top, width, height } = u.bbox;
    const { min, max } = u.scales.x;
    return {
      ctx: u.ctx, unit: uPlot.pxRatio, left, top, right: left + width, bottom: top + height,
      across: (x) => left + ((x - min) / (max - min)) * width, up: (y) => u.valToPos(y, "y", true),
    };
  }

  /** Draws in the frame and above it, and leaves the canvas as it was. */
  function within({ ctx, unit, left, right, bottom }, paint) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(left - 7 * unit, 0, right - left + 14 * unit, bottom);
    ctx.clip();
    paint();
    ctx.restore();
  }

  function rule({ ctx, unit }, hue, dash, from, to) {
    Object.assign(ctx, { strokeStyle: hue, lineWidth: unit });
    ctx.setLineDash(dash.map((part) => part * unit));
    ctx.beginPath();
    ctx.moveTo(...from);
    ctx.lineTo(...to);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  /** Writes a text at the first of some places, [left, middle], where it covers none of `boxes`, and adds its own; returns that, or undefined. */
  function write({ ctx, unit, left, right }, boxes, text, hue, placesOf) {
    Object.assign(ctx, { font: `${12 * unit}px ${FONT}`, textBaseline: "middle", textAlign: "left", lineJoin: "round" });
    const width = ctx.measureText(text).width;
    for (const [x, y] of placesOf(width)) {
      const box = { left: x, right: x + width, top: y - 8 * unit, bottom: y + 8 * unit };
      const isFree = ({ left: a, right: b, top, bottom }) => b < box.left || a > box.right || bottom < box.top || top > box.bottom;
      if (x < left || box.right > right || !boxes.every(isFree)) continue;
      boxes.push(box);
      Object.assign(ctx, { strokeStyle: colour("--card"), lineWidth: 4 * unit, fillStyle: hue }); // a halo, over lines
      ctx.strokeText(text, x, y);
      ctx.fillText(text, x, y);
      return box;
    }
  }

  /**
   * Draws the intervals of lines as bars, one for each px: those of a dense line touch. Note: tried bands of uPlot, which
   * builds a path for each end: of 10,000 commits x 10 they took more than the lines.
   */
  function drawIntervals(u, lines) {
    const area = frame(u);
    const { ctx, unit, across, up } = area;
    const [first, last] = inView(u, { x: u.data[0] });
    const room = roomOf(u, [first, last]);
    within(area, () => {
      for (const { low, high, colour } of lines) {
        const ends = []; // by px: the lowest and the highest end there
        for (let at = first; at < last; at += 1) {
          if (low[at] === null) continue;
          const here = ends[Math.round(across(u.data[0][at]))] ??= [Infinity, -Infinity];
          if (low[at] < here[0]) here[0] = low[at];
          if (high[at] > here[1]) here[1] = high[at];
        }
        const bars = new Path2D();
        ends.forEach(([least, most], x) => { // skips the px without one
          bars.moveTo(x, up(least));
          bars.lineTo(x, up(most));
        });
        Object.assign(ctx, { strokeStyle: `${colour}${room < ROOM ? "40" : "73"}`, lineWidth: Math.max(room < ROOM ? room : Math.min(Math.max(0.4 * room, 2), 5), 1) * unit });
        ctx.stroke(bars);
      }
    });
  }

  /** Draws the lines of tags, changes of the machine, findings and the roof, and names the first two. */
  function drawBehind(u, model) {
    const area = frame(u);
    const { unit, left, right, top, bottom, across, up } = area;
    within(area, () => {
      const boxes = [];
      for (const mark of model.marks.foot) {
        const [x, hue] = [across(mark.x), colour(HUES[mark.kind])];
        rule(area, hue, mark.kind === "tag" ? [2, 3] : [6, 4], [x, top], [x, bottom]);
        mark.box = write(area, boxes, mark.label, hue, () => [10, 26].map((above) => [x + 4 * unit, bottom - above * unit]));
      }
      for (const mark of model.marks.finding) rule(area, colour(HUES[mark.what]), [], [across(mark.x), top], [across(mark.x), bottom]);
      for (const roof of model.marks.roof) {
        const y = up(roof.y);
        if (y >= top && y <= bottom) rule(area, colour("--ink"), [8, 4, 2, 4], [left, y], [right, y]);
      }
    });
  }

  /** Draws change points at their values, the heads of findings, the chosen commit, and the name of the roof. */
  function drawAbove(u, model) {
    const area = frame(u);
    const { ctx, unit, left, right, top, bottom, across, up } = area;
    const isInside = ({ x }) => across(x) >= left && across(x) <= right;
    const boxes = model.marks.roof.map((roof) => ({ left, right, top: up(roof.y), bottom: up(roof.y) })); // which no label may cover
    const shape = (path) => {
      ctx.beginPath();
      path();
      ctx.fill();
    };
    within(area, () => {
      if (model.chosen !== null) rule(area, colour("--ink"), [], [across(model.x[model.chosen]), top], [across(model.x[model.chosen]), bottom]);
      for (const mark of model.marks.finding) {
        mark.head = { x: across(mark.x), y: top - 8 * unit };
        boxes.push({ left: mark.head.x - 9 * unit, right: mark.head.x + 9 * unit, top: 0, bottom: top });
      }
      for (const mark of model.marks.finding.filter(isInside)) {
        const { x, y } = mark.head;
        ctx.fillStyle = colour(HUES[mark.what]);
        shape(() => ctx.arc(x, y, 6 * unit, 0, 2 * Math.PI));
        mark.box = write(area, boxes, mark.label, ctx.fillStyle, (width) => [[x + 11 * unit, y], [x - 11 * unit - width, y]]);
      }
      for (const mark of model.marks.change.filter(isInside)) {
        const [x, y, tip] = [across(mark.x), up(mark.y), (["faster", "higher"].includes(mark.word) ? -7 : 7) * unit];
        Object.assign(ctx, { fillStyle: mark.colour, strokeStyle: colour("--ink"), lineWidth: 1.5 * unit });
        shape(() => { for (const [a, b] of [[-7, -0.8], [7, -0.8], [0, 1], [-7, -0.8]]) ctx.lineTo(x + a * unit, y + b * tip); });
        ctx.stroke();
        boxes.push({ left: x - 7 * unit, right: x + 7 * unit, top: y - 7 * unit, bottom: y + 7 * unit });
      }
      for (const mark of model.marks.change.filter(isInside)) {
        mark.box = write(area, boxes, mark.label, colour("--ink"), (width) => {
          const from = Math.min(Math.max(across(mark.x) - width / 2, left), right - width);
          return [-18, 18, -36, 36].map((apart) => [from, up(mark.y) + apart * unit]);
        });
      }
      for (const roof of model.marks.roof) {
        const [y, arrow] = up(roof.y) < top ? [top, "↑ "] : up(roof.y) > bottom ? [bottom, "↓ "] : [up(roof.y), ""];
        write(area, boxes, arrow + roof.label, colour("--ink"), (width) =>
          [left + 5 * unit, right - width - 5 * unit].flatMap((x) => [-9, 9].map((apart) => [x, y + apart * unit])));
      }
    });
  }

  return { draw, inView };
})();
