// The charts of a measurement's page: figures with a caption, of the rounds of one series or of raw samples.
"use strict";

const GAUGES = { core_gauge: "gauge of the core", memory_gauge: "gauge of the memory", control_gauge: "control beside it" };

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Returns the autocorrelation of values at the lags 1, 2, ... that have 3 pairs or more, as harness/statistics.py; none of equal values. */
function autocorrelations(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const centred = values.map((value) => value - mean);
  const product = (lag) => centred.slice(lag).reduce((sum, value, index) => sum + value * centred[index], 0);
  if (product(0) <= (1e-12 * mean) ** 2 * values.length) return [];
  return Array.from({ length: Math.max(values.length - 3, 0) }, (_, index) => product(index + 1) / product(0));
}

/** Returns a figure; without a chart the caption says why. */
function figure(title, caption, chart) {
  const element = make("figure", {}, make("figcaption", {}, make("strong", {}, title), caption));
  if (chart) element.append(Plots.draw({ label: `${title}: ${caption}`, ...chart }));
  return element;
}

function withTable(element, heads, rows) {
  element.append(make("details", {}, make("summary", {}, "As a table"), table(heads, rows)));
  return element;
}

// ---- rounds ---------------------------------------------------------------------------------------------------------

const dotClass = (round) => (!round.counts ? "left-out" : round.flags ? "flagged" : "dot");
const roundText = (round) => `round ${round.number}: ${Numbers.seconds(round.estimate)}${round.flags ? `, ${round.flags}` : ""}`;

/** Returns the layers of a value and its interval, along an axis; `scaled` converts seconds. */
function valueLayers({ value, low, high }, axis, scaled, clipped = scaled) {
  return [
    ...(low === null ? [] : [{ kind: "band", axis, low: clipped(low), high: clipped(high) }]),
    ...(value === null ? [] : [{ kind: "level", axis, at: scaled(value) }]),
  ];
}

function overTime(series, rounds, unit) {
  const first = rounds[0].began;
  const { name: unitOfTime, scale } = Numbers.span(rounds.at(-1).began - first);
  const x = (round) => (round.began - first) / scale;
  const y = (seconds) => seconds / unit.scale;
  const adjusted = rounds.filter((round) => round.adjusted !== undefined);
  const whiskers = rounds.filter((round) => round.half_width)
    .map((round) => [x(round), ...[-1, 1].map((sign) => y(round.estimate * (1 + sign * round.half_width)))]);
  const heights = [...rounds.map((round) => round.estimate), ...adjusted.map((round) => round.adjusted), series.low ?? NaN, series.high ?? NaN].map(y);
  const rings = adjusted.length ? " Rings: the same rounds, adjusted." : "";
  return figure("Over time", `Each dot is the estimate of a round, its bar what its own samples leave open. Line and band: the value and its 95% interval.${rings} A slope or waves: the machine changed meanwhile.`, {
    x: { title: `${unitOfTime} since the first round`, ...Plots.range(rounds.map(x)) },
    y: { title: `time per call, ${unit.name}`, ...Plots.range(heights, { least: 0.005 }) },
    layers: [
      ...valueLayers(series, "y", y),
      { kind: "whiskers", points: whiskers },
      { kind: "dots", points: rounds.map((round) => [x(round), y(round.estimate), roundText(round), dotClass(round)]) },
      { kind: "dots", className: "adjusted", points: adjusted.map((round) => [x(round), y(round.adjusted), `round ${round.number}, adjusted: ${Numbers.seconds(round.adjusted)}`]) },
    ],
  });
}

function distribution(series, rounds, unit) {
  const x = (seconds) => seconds / unit.scale;
  const bounds = Plots.range(rounds.map((round) => x(round.estimate)), { least: 0.005 });
  const step = (bounds.high - bounds.low) / 40; // dots closer than this are stacked
  const heights = new Map();
  const points = rounds.map((round) => {
    const heap = Math.round((x(round.estimate) - bounds.low) / step);
    heights.set(heap, (heights.get(heap) ?? 0) + 1);
    return [x(round.estimate), heights.get(heap) - 0.5, roundText(round), dotClass(round)];
  });
  const clipped = (seconds) => Math.min(Math.max(x(seconds), bounds.low), bounds.high);
  return figure("Distribution", "The same estimates on one line, equal ones on top of each other. Close together: the time repeats. Two heaps: the machine, or the kernel, has two states.", {
    x: { title: `time per call, ${unit.name}`, ...bounds },
    y: { title: "rounds", low: 0, high: Math.max(4, ...heights.values()) + 0.5 },
    layers: [...valueLayers(series, "x", x, clipped), { kind: "dots", points }],
  });
}

/** Draws times, s, against those that came next. */
function lagPlot(title, caption, times, next, unit, style) {
  const [before, after] = [times, next].map((values) => values.map((seconds) => seconds / unit.scale));
  const bounds = Plots.range([...before, ...after], { least: 0.005 });
  return figure(title, caption, {
    x: { title: `one, ${unit.name}`, ...bounds }, y: { title: `the next, ${unit.name}`, ...bounds },
    layers: [{ kind: "path", className: "dashed", points: [[bounds.low, bounds.low], [bounds.high, bounds.high]] },
      { kind: "dots", points: before.map((value, index) => [value, after[index]]), ...style }],
  });
}

function correlogram(title, caption, lags, values, count, noun) {
  const bound = 1.96 / Math.sqrt(count);
  const element = figure(title, `${caption} Dashed: 95% of values without memory lie within ±${Numbers.significant(bound)}.`, {
    x: { title: `lag, ${noun}`, low: 0.4, high: Math.max(...lags) + 0.6, ticks: lags.length > 8 ? undefined : lags.map((lag) => [lag, String(lag)]) },
    y: { title: "autocorrelation", ...Plots.range([...values, bound, -bound, 0]) },
    layers: [{ kind: "level", at: 0 }, { kind: "level", at: bound, className: "dashed" }, { kind: "level", at: -bound, className: "dashed" },
      { kind: "bars", points: lags.map((lag, index) => [lag - 0.3, lag + 0.3, values[index]]) }],
  });
  return withTable(element, ["lag", "autocorrelation"], lags.map((lag, index) => [String(lag), values[index].toFixed(3)]));
}

/** Draws the estimates against a gauge that was timed beside them; null where fewer than two rounds have it. */
function againstGauge(name, rounds, fit) {
  const measured = rounds.filter((round) => round.counts && round[name]);
  if (measured.length < 2) return null;
  const [slope, centre] = fit?.signals[name] ?? [0, median(measured.map((round) => round[name]))];
  const usual = median(measured.map((round) => round.adjusted ?? round.estimate));
  const percent = (value, reference) => 100 * (value / reference - 1);
  const points = measured.map((round) => [percent(round[name], centre), percent(round.estimate, usual), roundText(round), dotClass(round)]);
  const [x, y] = [0, 1].map((axis) => Plots.range(points.map((point) => point[axis]), { least: 0.05 }));
  const line = [x.low, x.high].map((change) => [change, 100 * ((1 + change / 100) ** slope - 1)]);
  const used = slope ? `Where it takes 1% longer, ${Numbers.significant(slope)}% is taken off (line).` : "The series is not known to move with it, so it is not adjusted by it.";
  const work = name === "control_gauge" ? "A call of PyTorch's own implementation" : "A fixed piece of work";
  return figure(GAUGES[name][0].toUpperCase() + GAUGES[name].slice(1), `${work}, timed beside the samples, against the estimate; both as differences from what is usual. ${used}`, {
    x: { title: `${GAUGES[name]}, %`, ...x }, y: { title: "estimate, %", ...y },
    layers: [...(slope ? [{ kind: "path", points: line }] : []), { kind: "dots", points }],
  });
}

function clocks(rounds) {
  const measured = rounds.filter((round) => round.sm_before && round.sm_after);
  if (!measured.length) return null;
  const points = measured.flatMap(({ number, sm_before: before, sm_after: after }) => [[number - 0.15, before / 1e6], [number + 0.15, after / 1e6]]);
  const temperatures = measured.map((round) => round.temperature ?? NaN).filter(Number.isFinite);
  const hottest = temperatures.length ? ` At most ${Math.max(...temperatures)} °C.` : "";
  return figure("Clock of the GPU", `Before and after each round; by over 1% apart, and the round is flagged clock_drift.${hottest}`, {
    x: { title: "round", low: 0.4, high: Math.max(...measured.map((round) => round.number)) + 0.6 },
    y: { title: "SM clock, MHz", ...Plots.range(points.map(([, megahertz]) => megahertz), { least: 0.01 }) },
    layers: [{ kind: "dots", points }],
  });
}

function roundCharts(series, rounds, fit) {
  const unit = Numbers.unit(series.value ?? median(rounds.map((round) => round.estimate)));
  const estimates = rounds.filter((round) => round.counts).map((round) => round.estimate);
  const lags = autocorrelations(estimates);
  const resemblance = "How much rounds so many places apart resemble each other";
  return [
    overTime(series, rounds, unit), distribution(series, rounds, unit),
    estimates.length >= 3
      ? lagPlot("Lag plot", "Each round against the one after it. A cloud without a shape: a round knows nothing of the one before, as the interval assumes. Along the dashed line: slow rounds follow slow ones.", estimates.slice(0, -1), estimates.slice(1), unit)
      : figure("Lag plot", "Each round against the one after it: needs 3 rounds."),
    lags.length
      ? correlogram("Autocorrelation", `${resemblance}: 1 alike, 0 not at all.`, lags.map((_, index) => index + 1), lags, estimates.length, "rounds")
      : figure("Autocorrelation", `${resemblance}: needs 4 rounds that are not all equal.`),
    ...Object.keys(GAUGES).map((name) => againstGauge(name, rounds, fit)), clocks(rounds),
  ].filter(Boolean);
}

// ---- raw samples ----------------------------------------------------------------------------------------------------

function traceCharts(trace) {
  const unit = Numbers.unit(trace.median);
  const scaled = (seconds) => seconds / unit.scale;
  const times = { title: `time per call, ${unit.name}` };
  const edges = trace.edges.map(scaled);
  const longest = edges.at(-1); // that is drawn
  const cut = trace.beyond ? ` ${Numbers.count(trace.beyond)} slower ones, up to ${Numbers.seconds(trace.longest)}, are not drawn.` : "";
  const points = trace.number.map((number, index) => [number, scaled(trace.seconds[index])]).filter(([, value]) => value <= longest);
  const pairs = trace.lag[0].map((seconds, index) => [seconds, trace.lag[1][index]]).filter((pair) => scaled(Math.max(...pair)) <= longest);
  const bars = trace.counts.map((count, index) => [edges[index], edges[index + 1], count]);
  const histogram = figure("Distribution of the samples", `How often which time was read.${cut}`, {
    x: { ...times, low: edges[0], high: longest }, y: { title: "samples", ...Plots.range([0, ...trace.counts], { from: 0 }) },
    layers: [{ kind: "bars", points: bars }, { kind: "level", axis: "x", at: scaled(trace.median) }],
  });
  const style = { className: "dense", size: 2 };
  return [
    figure("Samples in the order taken", "From the first call on: a fall at the beginning is warm-up, steps are changes of clocks, spikes are interruptions.", {
      x: { title: "sample", low: 0, high: trace.samples },
      y: { ...times, ...Plots.range(points.map(([, value]) => value), { least: 0.005 }) },
      layers: [{ kind: "dots", points, ...style }],
    }),
    withTable(histogram, [`from, ${unit.name}`, `to, ${unit.name}`, "samples"], bars.map(([low, high, count]) => [Numbers.significant(low), Numbers.significant(high), String(count)])),
    lagPlot("Lag plot of the samples", "Each sample against the next one of the same process. Heaps: several states; along the dashed line: a slow sample is followed by a slow one.", pairs.map(([before]) => before), pairs.map(([, after]) => after), unit, style),
    trace.correlogram.length
      ? correlogram("Autocorrelation of the samples", "How much samples so many places apart resemble each other: why an interval is made from rounds and not from samples.", trace.lags, trace.correlogram, trace.samples, "samples")
      : figure("Autocorrelation of the samples", "Needs 16 samples that are not all equal."),
  ];
}
