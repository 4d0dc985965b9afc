// Small charts of a measurement's rounds as SVG: axes with round numbers, and on them layers of dots, lines and bands.
// Note: tried Bokeh: the eight figures of a measurement take it .4 to 1.1 s at every choice, these 15 to 33 ms. Made by
// Python when the site is written, they would be ten times the data (14.6 kB for 1.4 kB of a series' rounds).
"use strict";

const Plots = (() => {
  // In the chart's own units. The page scales the chart to its column; a narrow one keeps its text legible on a phone
  const WIDTH = Math.min(520, Math.max(300, document.documentElement.clientWidth - 56)), HEIGHT = 250;
  const [LEFT, RIGHT, TOP, BOTTOM] = [58, WIDTH - 14, 10, HEIGHT - 42]; // of the frame

  function node(name, attributes, text = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  }

  const line = (className, x1, y1, x2, y2) => node("line", { class: className, x1, y1, x2, y2 });

  /** Returns bounds with some room around all values, at least the fraction `least` of their middle to either side. */
  function range(values, least = 0) {
    const known = values.filter(Number.isFinite);
    const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
    const middle = (low + high) / 2;
    const half = Math.max((high - low) / 2, least * Math.abs(middle)) || Math.abs(middle) / 2 || 1;
    return { low: middle - 1.12 * half, high: middle + 1.12 * half };
  }

  const inside = (y) => Math.min(Math.max(y, TOP), BOTTOM);

  const LAYERS = { // kind -> the nodes of a layer
    band: (_, y, { low, high }) => [node("rect", { class: "band", x: LEFT, y: y(high), width: RIGHT - LEFT, height: Math.max(y(low) - y(high), 0) })],
    level: (_, y, { at }) => [line("level", LEFT, y(at), RIGHT, y(at))],
    path: (x, y, { points }) => [node("polyline", { class: "path", points: points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ") })],
    whiskers: (x, y, { points }) => points.map(([at, low, high]) => line("whisker", x(at), inside(y(low)), x(at), inside(y(high)))),
    dots: (x, y, { points }) => points.map(([across, up, className, title]) => {
      const dot = node("circle", { class: className, cx: x(across), cy: y(up), r: 4.5 });
      dot.append(node("title", {}, title));
      return dot;
    }),
  };

  /** Returns a chart in a figure. `x` and `y`: {title, low, high}; `layers`: what is drawn, the lowest first. */
  function figure({ title, caption, x, y, layers }) {
    const across = (value) => LEFT + ((RIGHT - LEFT) * (value - x.low)) / (x.high - x.low);
    const up = (value) => BOTTOM - ((BOTTOM - TOP) * (value - y.low)) / (y.high - y.low);
    const text = (content, anchor, place) => node("text", { ...place, "text-anchor": anchor }, content);
    const svg = node("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${caption}` });
    for (const value of Numbers.ticks(y.low, y.high, 4)) {
      svg.append(line("grid", LEFT, up(value), RIGHT, up(value)), text(Numbers.tick(value), "end", { x: LEFT - 7, y: up(value) + 4 }));
    }
    for (const value of Numbers.ticks(x.low, x.high, 5)) svg.append(text(Numbers.tick(value), "middle", { x: across(value), y: BOTTOM + 17 }));
    svg.append(text(y.title, "middle", { transform: `translate(12 ${(TOP + BOTTOM) / 2}) rotate(-90)` }),
      text(x.title, "middle", { x: (LEFT + RIGHT) / 2, y: HEIGHT - 6 }), line("grid", LEFT, BOTTOM, RIGHT, BOTTOM));
    for (const layer of layers) svg.append(...LAYERS[layer.kind](across, up, layer));
    return make("figure", {}, make("figcaption", {}, make("strong", {}, title), caption), svg);
  }

  return { figure, range };
})();

/** Returns the median of some values. */
function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

const dotClass = (round) => (!round.counts ? "left-out" : round.flags ? "flagged" : "dot");
const roundText = (round) => `round ${round.number}: ${Numbers.seconds(round.estimate)}${round.flags ? `, ${round.flags}` : ""}`;

function overTime({ value, low, high }, rounds) {
  const [name, scale] = Numbers.readable(value ?? median(rounds.map((round) => round.estimate)), "s");
  const minutes = (round) => (round.began - rounds[0].began) / 60;
  const y = (seconds) => seconds / scale;
  const adjusted = rounds.filter((round) => round.adjusted !== undefined);
  const whiskers = rounds.filter((round) => round.half_width)
    .map((round) => [minutes(round), ...[-1, 1].map((sign) => y(round.estimate * (1 + sign * round.half_width)))]);
  const heights = [...rounds.map((round) => round.estimate), ...adjusted.map((round) => round.adjusted), low ?? NaN, high ?? NaN];
  return Plots.figure({
    title: "Over time",
    caption: `Each dot is the estimate of a round, its bar the interval from that round's samples. Line and band: the value and its 95% interval.${
      adjusted.length ? " Rings: the same rounds, adjusted." : ""} A slope or waves: the machine changed meanwhile.`,
    x: { title: "minutes since the first round", ...Plots.range(rounds.map(minutes)) },
    y: { title: `time per call, ${name}`, ...Plots.range(heights.map(y), 0.005) },
    layers: [
      ...(low === null ? [] : [{ kind: "band", low: y(low), high: y(high) }]), ...(value === null ? [] : [{ kind: "level", at: y(value) }]),
      { kind: "whiskers", points: whiskers },
      { kind: "dots", points: rounds.map((round) => [minutes(round), y(round.estimate), dotClass(round), roundText(round)]) },
      { kind: "dots", points: adjusted.map((round) => [minutes(round), y(round.adjusted), "adjusted", `round ${round.number}, adjusted: ${Numbers.seconds(round.adjusted)}`]) },
    ],
  });
}

/** Draws the estimates against a gauge that was timed beside them; null where fewer than two rounds have it. */
function againstGauge(name, title, rounds, fit) {
  const measured = rounds.filter((round) => round.counts && round[name]);
  if (measured.length < 2) return null;
  const [slope, centre] = fit?.signals[name] ?? [0, median(measured.map((round) => round[name]))];
  const usual = median(measured.map((round) => round.adjusted ?? round.estimate));
  const percent = (value, reference) => 100 * (value / reference - 1);
  const points = measured.map((round) => [percent(round[name], centre), percent(round.estimate, usual), dotClass(round), roundText(round)]);
  const [x, y] = [0, 1].map((axis) => Plots.range(points.map((point) => point[axis]), 0.05));
  const line = [x.low, x.high].map((change) => [change, 100 * ((1 + change / 100) ** slope - 1)]);
  const used = slope ? `Where it takes 1% longer, ${Numbers.significant(slope)}% is taken off (line).` : "The series is not known to move with it, so it is not adjusted by it.";
  return Plots.figure({
    title, caption: `The ${title}, timed beside the samples, against the estimate; both as differences from their usual values. ${used}`,
    x: { title: `${title}, %`, ...x }, y: { title: "estimate, %", ...y },
    layers: [...(slope ? [{ kind: "path", points: line }] : []), { kind: "dots", points }],
  });
}
