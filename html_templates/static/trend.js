// The chart of a kernel's page, drawn by uPlot: lines with their intervals, marks, the roof, the chosen commit.
"use strict";

/**
 * @typedef {{x: number[], commits: object[], lines: object[], marks: object, unit: string, isTime: boolean, scale: string,
 *   view: [number, number], chosen: number | null}} Model  Arrays have one entry for each commit; null is missing.
 */
const Trend = (() => {
  const ROOM = 4.5; // px per commit below which dots and whiskers are left out
  const TICK = 84; // px of a tick's label
  const FAR = 2; // times the highest value, from which on a roof is named at the edge instead of drawn to scale
  const DASHES = { solid: [], dashed: [6, 4], dotted: [2, 3], dotdash: [2, 3, 7, 3] };
  const HUES = { regression: "--slower", improvement: "--faster", environment: "--event", vanished: "--muted" }; // of findings
  const SHAPES = [ // of dots, in turn; triangles are change points
    (path, x, y, r) => path.arc(x, y, r, 0, 2 * Math.PI),
    (path, x, y, r) => path.rect(x - r, y - r, 2 * r, 2 * r),
    (path, x, y, r) => polygon(path, [[x, y - 1.3 * r], [x + 1.3 * r, y], [x, y + 1.3 * r], [x - 1.3 * r, y]]),
  ];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function polygon(path, corners) {
    corners.forEach(([x, y], index) => (index ? path.lineTo(x, y) : path.moveTo(x, y)));
    path.closePath();
  }

  /**
   * Draws a model in an element; returns uPlot's chart.
   * @param {{width: number, height: number, large?: number}} size px; `large`: how much larger than on a screen
   */
  function draw(host, model, { width, height, large = 1 }, { cursor = {}, hooks = {} } = {}) {
    const lines = model.lines.filter((line) => line.visible);
    const font = `${12 * large}px Helvetica, Arial, sans-serif`;
    const axis = { stroke: () => colour("--muted"), font, labelFont: font, labelSize: 20 * large, gap: 5 * large };
    const ticks = { stroke: () => colour("--rule"), size: 5 * large, width: large };
    const chart = new uPlot({
      width, height, cursor: { y: false, points: { show: (_, index) => (index % 3 === 1 ? make("div", {}) : null), size: 11 }, ...cursor },
      legend: { show: false }, padding: [22 * large, 30 * large, 0, 0],
      scales: {
        x: { time: model.isTime, auto: false, min: model.view[0], max: model.view[1], range: (_, min, max) => [min, max] },
        y: { distr: model.scale === "log" ? 3 : 1, range: (_, min, max) => heights(model, min, max) },
      },
      axes: [
        { ...axis, ticks, grid: { show: false }, size: 42 * large, space: TICK * large,
          ...(model.isTime ? {} : { splits: (u) => places(u, model, large), filter: (_, splits) => splits,
            values: (_, splits) => splits.map((x) => model.commits[x].sha.slice(0, 8)) }) },
        { ...axis, ticks, grid: { stroke: () => colour("--rule"), width: large }, size: 58 * large, label: model.unit, space: 40 * large,
          splits: (u) => rounded(u), filter: (_, splits) => splits, values: (_, splits) => splits.map(figure) },
      ],
      series: [{}, ...lines.flatMap((line) => [
        { stroke: line.colour, width: 1.8 * large, dash: DASHES[line.dash].map((part) => part * large), points: { show: false } },
        ...[0, 1].map(() => ({ width: 0, auto: false, points: { show: false } })),
      ])],
      bands: lines.map((line, index) => ({ series: [3 * index + 3, 3 * index + 2], fill: `${line.colour}33` })),
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
      hooks: {
        ...hooks,
        drawAxes: [(u) => drawBehind(u, model, large)],
        drawSeries: [(u, index) => { if (index % 3 === 0) drawDots(u, lines[index / 3 - 1], large); }], // after its band
        draw: [(u) => drawAbove(u, model, large)],
      },
    }, [model.x, ...lines.flatMap((line) => [line.y, line.low, line.high])], host);
    chart.batch(() => {}); // now: paper waits for no frame
    return chart;
  }

  // ---- axes -----------------------------------------------------------------------------------------------------------

  /** Returns the ends of the vertical axis for the least and greatest value in view. Intervals may be cut off. */
  function heights({ scale, marks }, least, most) {
    if (least === null || !(most >= least)) return scale === "log" ? [1, 10] : [0, 1];
    const [roof] = marks.roof.map(({ y }) => y);
    if (scale === "log") return [Math.min(least, roof ?? least) / 1.15, Math.max(most, roof ?? most) * 1.25];
    const [low, high] = scale === "zero" ? [Math.min(least, 0), Math.max(most, 0, roof < FAR * most ? roof : 0)] : [least, most];
    const height = high - low || Math.abs(high) || 1;
    return [scale === "zero" && low === 0 ? 0 : low - 0.1 * height, high + 0.2 * height];
  }

  /** Returns round numbers for the vertical axis. A logarithmic one of more than a decade has powers of ten with 2 and 5. */
  function rounded({ scales: { y: { min, max, distr } } }) {
    const splits = [];
    if (distr === 3 && max / min > 10) {
      for (let power = 10 ** Math.floor(Math.log10(min)); power <= max; power *= 10) splits.push(power, 2 * power, 5 * power);
      return splits.filter((value) => value >= min && value <= max);
    }
    const power = 10 ** Math.floor(Math.log10((max - min) / 5));
    const step = [1, 2, 5, 10].find((factor) => factor * power * 7 >= max - min) * power;
    for (let index = Math.ceil(min / step); index * step <= max; index += 1) splits.push(index * step);
    return splits;
  }

  const figure = (value) => (value === 0 ? "0" : Math.abs(value) < 1e-4
    ? value.toExponential(0) : value.toLocaleString("en", { maximumSignificantDigits: 5 })).replace("-", "−");

  /** Returns the commits in view, the first and the one after the last, by their places. */
  function inView({ scales: { x: { min, max } } }, { x }) {
    const first = x.findIndex((value) => value >= min);
    const last = x.findLastIndex((value) => value <= max);
    return first < 0 || last < first ? [0, 0] : [first, last + 1];
  }

  function places(u, model, large) {
    const [first, last] = inView(u, model);
    const stride = Math.max(Math.ceil((last - first) / (u.bbox.width / uPlot.pxRatio / large / TICK)), 1);
    return Array.from({ length: Math.ceil((last - first) / stride) }, (_, index) => first + index * stride);
  }

  // ---- what uPlot does not draw. All in px of the canvas, of which `unit` are a px of the page ------------------------

  function frame(u, large) {
    const { left, top, width, height } = u.bbox;
    const unit = uPlot.pxRatio * large;
    u.ctx.lineWidth = unit;
    return {
      ctx: u.ctx, unit, left, top, right: left + width, bottom: top + height,
      across: (x) => u.valToPos(x, "x", true), up: (y) => u.valToPos(y, "y", true),
    };
  }

  /** Draws in the frame only, and leaves the canvas as it was. */
  function within({ ctx, unit, left, right, bottom }, paint) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(left - 7 * unit, 0, right - left + 14 * unit, bottom);
    ctx.clip();
    paint();
    ctx.restore();
  }

  function rule({ ctx, unit }, hue, dash, from, to) {
    ctx.strokeStyle = hue;
    ctx.setLineDash(dash.map((part) => part * unit));
    ctx.beginPath();
    ctx.moveTo(...from);
    ctx.lineTo(...to);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  function write({ ctx, unit }, text, x, y, hue, { size = 12, weight = "", align = "left", angle = 0 } = {}) {
    ctx.save();
    ctx.translate(x, y);
    ctx.rotate(angle);
    Object.assign(ctx, { fillStyle: hue, textAlign: align, textBaseline: "middle", font: `${weight} ${size * unit}px Helvetica, Arial, sans-serif` });
    ctx.fillText(text, 0, 0);
    ctx.restore();
  }

  /** Draws the lines of tags, changes of the machine and findings, and the roof. */
  function drawBehind(u, model, large) {
    const area = frame(u, large);
    const { unit, left, right, top, bottom, across, up } = area;
    within(area, () => {
      let taken = -Infinity;
      for (const mark of model.marks.foot) {
        const x = across(mark.x);
        if (x < left - unit || x > right + unit) continue;
        const hue = colour(mark.kind === "tag" ? "--muted" : "--event");
        rule(area, hue, mark.kind === "tag" ? [2, 3] : [6, 4], [x, top], [x, bottom]);
        mark.isNamed = x - taken >= 15 * unit;
        if (!mark.isNamed) continue;
        write(area, mark.label, x - 7 * unit, bottom - 5 * unit, hue, { size: 11, angle: -Math.PI / 2 });
        taken = x;
      }
      for (const mark of model.marks.finding) rule(area, colour(HUES[mark.what]), [], [across(mark.x), top], [across(mark.x), bottom]);
      for (const roof of model.marks.roof) {
        const y = up(roof.y);
        if (y >= top && y <= bottom) rule(area, colour("--ink"), [8, 4, 2, 4], [left, y], [right, y]);
        const arrow = y < top ? "↑ " : y > bottom ? "↓ " : "";
        const above = y < top + 16 * unit ? Math.max(y, top) + 9 * unit : Math.min(y, bottom) - 8 * unit;
        write(area, arrow + roof.label, left + 5 * unit, above, colour("--ink"), { size: 11 });
      }
    });
  }

  /** Draws the dots and whiskers of a line, where there is room; of a dense one the values without neighbours. */
  function drawDots(u, line, large) {
    const area = frame(u, large);
    const { ctx, unit, across, up } = area;
    const [first, last] = inView(u, { x: u.data[0] });
    const room = u.bbox.width / unit / Math.max(last - first, 1);
    const radius = Math.min(Math.max(0.3 * room, 2), 4) * unit;
    const [whiskers, dots] = [new Path2D(), new Path2D()];
    line.dots = []; // the commits that have one
    for (let at = first; at < last; at += 1) {
      if (line.y[at] === null || (room < ROOM && (line.y[at - 1] ?? line.y[at + 1] ?? null) !== null)) continue;
      const [x, y] = [across(u.data[0][at]), up(line.y[at])];
      line.dots.push(at);
      const dot = new Path2D();
      SHAPES[line.shape % SHAPES.length](dot, x, y, room < ROOM ? 1.5 * unit : radius);
      dots.addPath(dot);
      if (line.low[at] === null) continue;
      whiskers.moveTo(x, up(line.low[at]));
      whiskers.lineTo(x, up(line.high[at]));
    }
    within(area, () => {
      Object.assign(ctx, { strokeStyle: `${line.colour}73`, lineWidth: Math.min(Math.max(0.4 * room, 2), 5) * unit });
      ctx.stroke(whiskers);
      Object.assign(ctx, { strokeStyle: line.colour, lineWidth: 1.5 * unit, fillStyle: line.dash === "solid" ? line.colour : colour("--card") });
      ctx.fill(dots);
      ctx.stroke(dots);
    });
  }

  /** Draws change points at their values, the heads of findings, and the chosen commit. */
  function drawAbove(u, model, large) {
    const area = frame(u, large);
    const { ctx, unit, left, right, top, bottom, across, up } = area;
    const lines = model.lines.filter((line) => line.visible);
    within(area, () => {
      if (model.chosen !== null) rule(area, colour("--ink"), [], [across(model.x[model.chosen]), top], [across(model.x[model.chosen]), bottom]);
      const boxes = [];
      for (const mark of model.marks.changes) {
        const [x, y] = [across(mark.x), up(mark.y)];
        if (x < left || x > right) continue;
        const height = (mark.isUp ? -7 : 7) * unit;
        ctx.beginPath();
        polygon(ctx, [[x - 7 * unit, y - height * 0.8], [x + 7 * unit, y - height * 0.8], [x, y + height]]);
        Object.assign(ctx, { fillStyle: mark.colour, strokeStyle: colour("--ink"), lineWidth: 1.5 * unit });
        ctx.fill();
        ctx.stroke();
        ctx.font = `bold ${12 * unit}px Helvetica, Arial, sans-serif`;
        mark.label = labelOf(u, area, lines, boxes, mark.words, x, y);
        if (mark.label) write(area, mark.words, mark.label.left, mark.label.middle, colour("--ink"), { weight: "bold" });
      }
      drawHeads(area, model.marks.finding);
    });
  }

  /** Returns the free box nearest to a change point for its label, which no line, roof or label crosses; null for none. */
  function labelOf(u, { ctx, unit, left, right, top, bottom, up }, lines, boxes, words, x, y) {
    const width = ctx.measureText(words).width;
    const from = Math.min(Math.max(x - width / 2, left + 2 * unit), right - width - 2 * unit);
    const [first, last] = [from - 3 * unit, from + width + 3 * unit].map((edge) => u.posToIdx(edge, true));
    const extents = lines.flatMap(({ y: values }) => { // of each line from commit to commit, px
      const spans = [];
      for (let at = Math.max(first - 1, 0); at <= last; at += 1) {
        const ends = [values[at], values[at + 1]].filter((value) => (value ?? null) !== null).map(up);
        if (ends.length) spans.push([Math.min(...ends), Math.max(...ends)]);
      }
      return spans;
    });
    for (let step = 0; step < 24; step += 1) {
      const middle = y + (step % 2 ? 1 : -1) * (18 + 9 * Math.floor(step / 2)) * unit;
      const [high, low] = [middle - 8 * unit, middle + 8 * unit];
      const isFree = high >= top - 20 * unit && low <= bottom && !extents.some(([begin, end]) => begin < low && end > high)
        && !boxes.some((box) => box.left < from + width && from < box.left + box.width && Math.abs(box.middle - middle) < 15 * unit);
      if (!isFree) continue;
      boxes.push({ left: from, width, middle });
      return boxes.at(-1);
    }
    return null;
  }

  /** Draws the heads of findings, with labels to the left or right where no other finding's line or label is. */
  function drawHeads(area, findings) {
    const { ctx, unit, left, right, top, across } = area;
    let taken = left; // up to which lines and labels stand
    findings.forEach((mark, index) => {
      const x = across(mark.x);
      mark.head = { x, y: top - 8 * unit, text: "" };
      if (x < left || x > right) return;
      const hue = colour(HUES[mark.what]);
      ctx.beginPath();
      ctx.arc(x, top - 8 * unit, 6 * unit, 0, 2 * Math.PI);
      ctx.fillStyle = hue;
      ctx.fill();
      ctx.font = `${12 * unit}px Helvetica, Arial, sans-serif`;
      const [gap, width] = [11 * unit, ctx.measureText(mark.label).width];
      const next = findings[index + 1] === undefined ? right : Math.min(across(findings[index + 1].x) - 8 * unit, right);
      const fits = { right: next - x >= gap + width, left: x - taken >= gap + width };
      const side = (x > (left + right) / 2 ? ["left", "right"] : ["right", "left"]).find((name) => fits[name]);
      taken = x + (side === "right" ? gap + width : 8 * unit);
      if (side === undefined) return;
      const from = side === "right" ? x + gap : x - gap - width;
      mark.head = { ...mark.head, text: mark.label, from, to: from + width };
      write(area, mark.label, from, top - 8 * unit, hue);
    });
  }

  /** Returns a canvas of a model as it is printed or saved: with its ground, and `large` times as many px as it is wide. */
  function picture(model, { width, height, large }) {
    const host = make("div", { style: "position: absolute; visibility: hidden" });
    document.body.append(host);
    const chart = draw(host, model, { width: width * large, height: height * large, large });
    const canvas = make("canvas", { class: "paper", width: chart.ctx.canvas.width, height: chart.ctx.canvas.height });
    const pen = canvas.getContext("2d");
    pen.fillStyle = colour("--card");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(chart.ctx.canvas, 0, 0);
    canvas.style.width = `${width}px`;
    chart.destroy();
    host.remove();
    return canvas;
  }

  return { draw, inView, picture };
})();
