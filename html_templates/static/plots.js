// Small charts as SVG: axes with round numbers, and layers of dots, bars, lines and bands on them. Nodes are made one
// by one, and whatever is text is set as text.
"use strict";

const Plots = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  // in the chart's own units: the page scales it to its column, and on a phone its text must not become smaller
  const WIDTH = Math.min(520, Math.max(300, document.documentElement.clientWidth - 56)), HEIGHT = 250;
  const LEFT = 58, RIGHT = 14, TOP = 10, BOTTOM = 42;

  function node(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  /** Returns at most `count` round numbers between two bounds, at 1, 2 or 5 times a power of ten. */
  function ticks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * (1 - 1e-9));
    const found = [];
    for (let index = Math.ceil(low / step - 1e-9); index * step <= high * (1 + Math.sign(high) * 1e-12); index += 1) {
      found.push(index * step);
    }
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    return found.map((value) => [value, value.toFixed(Math.min(decimals, 20)).replace("-", "−")]);
  }

  /** Returns bounds that hold all values with some room, and never none at all. */
  function range(values, { from, least = 0 } = {}) {
    const known = values.filter((value) => Number.isFinite(value));
    let low = Math.min(...known), high = Math.max(...known);
    if (known.length === 0) [low, high] = [0, 1];
    const middle = (low + high) / 2;
    const half = Math.max((high - low) / 2, least * Math.abs(middle)) || Math.abs(middle) / 2 || 1;
    return { low: from ?? middle - 1.12 * half, high: middle + 1.12 * half };
  }

  /** Returns a place on the y axis, of what lies beyond it the axis' end. */
  function within(y) {
    return Math.min(Math.max(y, TOP), HEIGHT - BOTTOM);
  }

  const LAYERS = {
    band: (at, layer) => {
      const [x1, x2] = layer.axis === "x" ? [at.x(layer.low), at.x(layer.high)] : [LEFT, WIDTH - RIGHT];
      const [y1, y2] = layer.axis === "x" ? [TOP, HEIGHT - BOTTOM] : [at.y(layer.high), at.y(layer.low)];
      return [node("rect", { class: "band", x: x1, y: y1, width: Math.max(x2 - x1, 0), height: Math.max(y2 - y1, 0) })];
    },
    level: (at, layer) => [node("line", layer.axis === "x"
      ? { class: layer.class ?? "level", x1: at.x(layer.at), x2: at.x(layer.at), y1: TOP, y2: HEIGHT - BOTTOM }
      : { class: layer.class ?? "level", x1: LEFT, x2: WIDTH - RIGHT, y1: at.y(layer.at), y2: at.y(layer.at) })],
    path: (at, layer) => [node("polyline", {
      class: layer.class ?? "path", points: layer.points.map(([x, y]) => `${at.x(x).toFixed(1)},${at.y(y).toFixed(1)}`).join(" "),
    })],
    whiskers: (at, layer) => layer.points.map(([x, low, high]) => node("line", {
      class: "whisker", x1: at.x(x), x2: at.x(x), y1: within(at.y(low)), y2: within(at.y(high)),
    })),
    bars: (at, layer) => layer.points.map(([x1, x2, y]) => {
      const [zero, top] = [at.y(0), at.y(y)];
      const [left, right] = [at.x(x1), at.x(x2)];
      return node("rect", {
        class: "bar", x: left, y: Math.min(zero, top), width: Math.max(right - left, 0.5), height: Math.abs(zero - top),
      });
    }),
    dots: (at, layer) => layer.points.map(([x, y, title, kind]) => {
      const made = node("circle", { class: kind ?? layer.class ?? "dot", cx: at.x(x), cy: at.y(y), r: layer.size ?? 4.5 });
      if (title) made.append(node("title", {}, title));
      return made;
    }),
  };

  function axis(svg, at, spec, horizontal) {
    const marks = spec.ticks ?? ticks(spec.low, spec.high, horizontal ? 5 : 4);
    for (const [value, text] of marks) {
      if (horizontal) {
        svg.append(node("text", { x: at.x(value), y: HEIGHT - BOTTOM + 17, "text-anchor": "middle" }, text));
      } else {
        svg.append(node("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: at.y(value), y2: at.y(value) }));
        svg.append(node("text", { x: LEFT - 7, y: at.y(value) + 4, "text-anchor": "end" }, text));
      }
    }
    const middle = horizontal ? (LEFT + WIDTH - RIGHT) / 2 : (TOP + HEIGHT - BOTTOM) / 2;
    svg.append(horizontal
      ? node("text", { x: middle, y: HEIGHT - 6, "text-anchor": "middle" }, spec.title)
      : node("text", { transform: `translate(12 ${middle}) rotate(-90)`, "text-anchor": "middle" }, spec.title));
  }

  /** Returns a chart: `x` and `y` say title, low and high, `layers` what is drawn, the first undermost. */
  function draw({ label, x, y, layers }) {
    const at = {
      x: (value) => LEFT + (WIDTH - LEFT - RIGHT) * (value - x.low) / (x.high - x.low),
      y: (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - y.low) / (y.high - y.low),
    };
    const svg = node("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
    axis(svg, at, y, false);
    axis(svg, at, x, true);
    svg.append(node("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }));
    for (const layer of layers) svg.append(...LAYERS[layer.kind](at, layer));
    return svg;
  }

  return { draw, range };
})();
