// The charts of a measurement's page, from the rounds of one series and from raw samples, each as a figure with a line of
// words; nodes are made one by one, and whatever is text is set as text.
"use strict";

function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const SIGNALS = {
  core_gauge: "gauge of the core", memory_gauge: "gauge of the memory", control_gauge: "control beside it",
  controls: "PyTorch's implementations in the same rounds",
};

// ---- charts -----------------------------------------------------------------------------------------------------

/** Returns a figure: a title, a line that explains it, the chart; without a chart the line says why. */
function chart(title, caption, spec) {
  const made = make("figure", {}, make("figcaption", {}, make("strong", {}, title), caption));
  if (spec) made.append(Plots.draw({ label: `${title}: ${caption}`, ...spec }));
  return made;
}

const kind = (round) => (!round.counts ? "left-out" : round.flags ? "flagged" : "dot");
const named = (round) => `round ${round.number}: ${Numbers.seconds(round.estimate)}${round.flags ? `, ${round.flags}` : ""}`;

function overTime(one, rounds, unit) {
  const first = rounds[0].began;
  const { name: text, scale } = Numbers.span(rounds[rounds.length - 1].began - first);
  const x = (round) => (round.began - first) / scale;
  const y = (seconds) => seconds / unit.scale;
  const whiskers = rounds.filter((round) => round.half_width).map((round) => [
    x(round), y(round.estimate * (1 - round.half_width)), y(round.estimate * (1 + round.half_width)),
  ]);
  const adjusted = rounds.filter((round) => round.adjusted !== undefined);
  const heights = [...rounds.map((round) => y(round.estimate)), ...adjusted.map((round) => y(round.adjusted)), y(one.low ?? NaN), y(one.high ?? NaN)];
  const layers = [{ kind: "whiskers", points: whiskers },
    { kind: "dots", points: rounds.map((round) => [x(round), y(round.estimate), named(round), kind(round)]) },
    { kind: "dots", class: "adjusted", points: adjusted.map((round) => [x(round), y(round.adjusted), `round ${round.number}, adjusted: ${Numbers.seconds(round.adjusted)}`]) }];
  if (one.value !== null) layers.unshift({ kind: "level", at: y(one.value) });
  if (one.low !== null) layers.unshift({ kind: "band", low: y(one.low), high: y(one.high) });
  return chart("Over time", `Each dot is the estimate of a round, its bar what its own samples leave open. Line and band: the value and its 95% interval.${adjusted.length ? " Rings: the same rounds, adjusted." : ""} A slope or waves: the machine changed meanwhile.`, {
    x: { title: `${text} since the first round`, ...Plots.range(rounds.map(x)) },
    y: { title: `time per call, ${unit.name}`, ...Plots.range(heights, { least: 0.005 }) }, layers,
  });
}

function distribution(one, rounds, unit) {
  const y = (seconds) => seconds / unit.scale;
  const bounds = Plots.range(rounds.map((round) => y(round.estimate)), { least: 0.005 });
  const step = (bounds.high - bounds.low) / 40; // dots closer than this stand on each other
  const heaps = new Map();
  const points = rounds.map((round) => {
    const heap = Math.round((y(round.estimate) - bounds.low) / step);
    heaps.set(heap, (heaps.get(heap) ?? 0) + 1);
    return [y(round.estimate), heaps.get(heap) - 0.5, named(round), kind(round)];
  });
  const layers = [{ kind: "dots", points }];
  if (one.value !== null) layers.unshift({ kind: "level", axis: "x", at: y(one.value) });
  if (one.low !== null) layers.unshift({ kind: "band", axis: "x", low: Math.max(y(one.low), bounds.low), high: Math.min(y(one.high), bounds.high) });
  return chart("Distribution", "The same estimates on one line, equal ones on top of each other. Close together: the time repeats. Two heaps: the machine, or the kernel, has two states.", {
    x: { title: `time per call, ${unit.name}`, ...bounds },
    y: { title: "rounds", low: 0, high: Math.max(4, ...heaps.values()) + 0.5 }, layers,
  });
}

function lagPlot(title, caption, before, after, unit, style) {
  const bounds = Plots.range([...before, ...after].map((seconds) => seconds / unit.scale), { least: 0.005 });
  return chart(title, caption, {
    x: { title: `one, ${unit.name}`, ...bounds }, y: { title: `the next, ${unit.name}`, ...bounds },
    layers: [{ kind: "path", class: "dashed", points: [[bounds.low, bounds.low], [bounds.high, bounds.high]] },
      { kind: "dots", points: before.map((seconds, index) => [seconds / unit.scale, after[index] / unit.scale]), ...style }],
  });
}

function correlogram(title, caption, lags, values, samples, noun) {
  const band = 1.96 / Math.sqrt(samples);
  const bounds = Plots.range([...values, band, -band, 0]);
  const made = chart(title, `${caption} Dashed: 95% of values without memory lie within ±${Numbers.significant(band)}.`, {
    x: { title: `lag, ${noun}`, low: 0.4, high: Math.max(...lags) + 0.6, ticks: lags.length > 8 ? undefined : lags.map((lag) => [lag, String(lag)]) },
    y: { title: "autocorrelation", ...bounds },
    layers: [{ kind: "level", at: 0 }, { kind: "level", at: band, class: "dashed" }, { kind: "level", at: -band, class: "dashed" },
      { kind: "bars", points: lags.map((lag, index) => [lag - 0.3, lag + 0.3, values[index]]) }],
  });
  made.append(make("details", {}, make("summary", {}, "As a table"), table(["lag", "autocorrelation"], lags.map((lag, index) => [String(lag), values[index].toFixed(3)]))));
  return made;
}

function beside(name, rounds, fit) {
  const read = rounds.filter((round) => round.counts && round[name]);
  if (read.length < 2) return null;
  const [slope, centre] = fit?.signals[name] ?? [0, median(read.map((round) => round[name]))];
  const usual = median(read.map((round) => round.adjusted ?? round.estimate));
  const points = read.map((round) => [100 * (round[name] / centre - 1), 100 * (round.estimate / usual - 1), named(round), kind(round)]);
  const x = Plots.range(points.map(([each]) => each), { least: 0.05 });
  const line = [x.low, x.high].map((each) => [each, 100 * ((1 + each / 100) ** slope - 1)]);
  const title = SIGNALS[name][0].toUpperCase() + SIGNALS[name].slice(1);
  const used = slope ? `Where it takes 1% longer, ${Numbers.significant(slope)}% is taken off (line).` : "The series is not known to move with it, so it is not adjusted by it.";
  return chart(title, `${name === "control_gauge" ? "A call of PyTorch's own implementation" : "A fixed piece of work"}, timed beside the samples, against the estimate; both as differences from what is usual. ${used}`, {
    x: { title: `${SIGNALS[name]}, %`, ...x }, y: { title: "estimate, %", ...Plots.range(points.map(([, each]) => each), { least: 0.05 }) },
    layers: [...(slope ? [{ kind: "path", points: line }] : []), { kind: "dots", points }],
  });
}

function clocks(rounds) {
  const read = rounds.filter((round) => round.sm_before && round.sm_after);
  if (!read.length) return null;
  const points = read.flatMap((round) => [[round.number - 0.15, round.sm_before / 1e6], [round.number + 0.15, round.sm_after / 1e6]]);
  const hot = read.filter((round) => round.temperature !== null && round.temperature !== undefined).map((round) => round.temperature);
  return chart("Clock of the GPU", `Before and after each round; by over 1% apart, and the round is flagged clock_drift.${hot.length ? ` At most ${Math.max(...hot)} °C.` : ""}`, {
    x: { title: "round", low: 0.4, high: Math.max(...read.map((round) => round.number)) + 0.6 },
    y: { title: "SM clock, MHz", ...Plots.range(points.map(([, each]) => each), { least: 0.01 }) },
    layers: [{ kind: "dots", points }],
  });
}

function traceCharts(trace) {
  const unit = Numbers.unit(trace.median);
  const scaled = (seconds) => seconds / unit.scale;
  const times = { title: `time per call, ${unit.name}` };
  const cut = trace.beyond ? ` ${Numbers.count(trace.beyond)} slower ones, up to ${Numbers.seconds(trace.longest)}, are not drawn.` : "";
  const edge = scaled(trace.edges[trace.edges.length - 1]);
  const inside = (values) => values.map(scaled).filter((value) => value <= edge);
  const bars = trace.counts.map((count, index) => [scaled(trace.edges[index]), scaled(trace.edges[index + 1]), count]);
  const points = trace.number.map((number, index) => [number, scaled(trace.seconds[index])]).filter(([, value]) => value <= edge);
  const kept = trace.lag[0].map((_, index) => index).filter((index) => Math.max(scaled(trace.lag[0][index]), scaled(trace.lag[1][index])) <= edge);
  const histogram = chart("Distribution of the samples", `How often which time was read.${cut}`, {
    x: { ...times, low: scaled(trace.edges[0]), high: edge }, y: { title: "samples", ...Plots.range([0, ...trace.counts], { from: 0 }) },
    layers: [{ kind: "bars", points: bars }, { kind: "level", axis: "x", at: scaled(trace.median) }],
  });
  histogram.append(make("details", {}, make("summary", {}, "As a table"), table([`from, ${unit.name}`, `to, ${unit.name}`, "samples"], bars.map(([low, high, count]) => [Numbers.significant(low), Numbers.significant(high), String(count)]))));
  return [
    chart("Samples in the order taken", "From the first call on: a fall at the beginning is warm-up, steps are changes of clocks, spikes are interruptions.", {
      x: { title: "sample", low: 0, high: trace.samples }, y: { ...times, ...Plots.range(inside(trace.seconds), { least: 0.005 }) },
      layers: [{ kind: "dots", class: "dense", size: 2, points }],
    }),
    histogram,
    lagPlot("Lag plot of the samples", "Each sample against the next one of the same process. Heaps: several states; along the dashed line: a slow sample is followed by a slow one.", kept.map((index) => trace.lag[0][index]), kept.map((index) => trace.lag[1][index]), unit, { class: "dense", size: 2 }),
    trace.correlogram.length ? correlogram("Autocorrelation of the samples", "How much samples so many places apart resemble each other: why an interval is made from rounds and not from samples.", trace.lags, trace.correlogram, trace.samples, "samples")
      : chart("Autocorrelation of the samples", "Needs 16 samples that are not all equal."),
  ];
}
