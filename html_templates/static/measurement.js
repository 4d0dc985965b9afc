// The page of a measurement: the rounds of one series at one commit (site/pages/measurement.py). The choice lives in the
// address: #commit=<SHA>&series=<name>.
"use strict";

const $ = (id) => document.getElementById(id);
const fieldsOf = $("choice")?.elements;
let turn = 0; // number of the latest request

const isKnown = (value) => value !== null && value !== undefined;
const loadOrNull = (name) => KV.load(name).catch(() => null);
const say = (text) => { $("status").textContent = text; };

/** Returns the values of a column (site/pages/measurement.py): `runs` of equal ones, or `steps` from one to the next, or `from` a number. */
function valuesOf({ runs, per, steps, from }) {
  let sum = 0;
  const numberOf = (code) => (code < 0 ? null : (code >> 1) ^ -(code & 1)); // 0, -1, 1, -2, ...
  return runs ? spread(runs) : (Array.isArray(steps) ? steps : Array.from(steps, (letter) => numberOf(letter.charCodeAt(0) - 35))).map((step) => (step === null ? null : (from === undefined ? (sum += step) : from + step) / per));
}

/** Returns the series of a commit that have rounds, by name. `labels`: what the columns of `file` are of. */
function seriesOf(file, labels) {
  const rounds = Object.entries(file.rounds).map(([name, column]) => [name, valuesOf(column)]);
  const [outcome, method, remarks, interval, ...ends] = ["outcome", "method", "remarks", "interval", "low", "high"].map((name) => valuesOf(file[name]));
  const series = {};
  let start = 0;
  labels.forEach(({ name, ...label }, at) => {
    const [base, end] = [file.base[at], start + file.count[at]];
    const columns = Object.fromEntries(rounds.map(([column, values]) => [column, values.slice(start, end)]));
    columns.estimate = columns.estimate.map((value) => base * (1 + value));
    const [low, high] = ends.map((values) => (values[at] === null ? null : base * (1 + values[at])));
    if (end > start) {
      series[name] = {
        ...label, outcome: outcome[at], method: method[at], remarks: remarks[at], rounds: columns,
        value: outcome[at] === "measured" ? base : null, interval: interval[at], low, high,
      };
    }
    start = end;
  });
  return series;
}

/** Returns what stands for a commit in the names of files. */
const inName = (index, sha) => (index.whole.includes(sha) ? sha : sha.slice(0, 8));

/** Returns a promise of what was measured of a commit at a place, by name, or null where its files are lost. */
async function loadMeasured(index, sha, place) {
  const file = await loadOrNull(`rounds-${inName(index, sha)}-${place}`);
  const labels = file && await loadOrNull(file.series);
  return labels && seriesOf(file, labels.series);
}

/** Returns the rounds of a series as objects, in the order of time, with adjusted estimates if all of them have gauges. */
function roundsOf(series, fit) {
  const rounds = series.rounds.estimate.map((_, index) => {
    const columns = Object.entries(series.rounds).map(([name, values]) => [name, values[index]]);
    return { ...Object.fromEntries(columns), number: index + 1 };
  });
  const counted = rounds.filter((round) => round.counts);
  const gauges = fit?.method === series.method ? Object.entries(fit?.signals ?? {}).filter(([, [, centre]]) => centre !== null) : [];
  const signalsOf = (round) => gauges.filter(([name]) => isKnown(round[name]));
  if (gauges.length && counted.every((round) => signalsOf(round).length)) {
    for (const round of counted) {
      const signal = signalsOf(round).reduce((sum, [name, [slope, centre]]) => sum + slope * Math.log(round[name] / centre), 0);
      round.adjusted = round.estimate * Math.exp(-signal);
    }
  }
  return rounds;
}

// ---- the value and how it was formed --------------------------------------------------------------------------------

/** Returns a sentence on how a value is adjusted. */
function adjustment({ method }, rounds, fit) {
  const adjusted = rounds.map((round) => round.adjusted).filter(isKnown);
  if (adjusted.length) return `Adjusted: ${Numbers.seconds(median(adjusted))}, what it would have been had the machine kept its usual pace. ${fit.words}`;
  if (fit?.signals.controls && fit.method === method) return fit.words;
  return "It is not adjusted: nothing was read beside its rounds that it is known to move with.";
}

/** Returns the sentences on how a value came from the estimates of its rounds. */
function formed({ value, interval, low, high }, rounds) {
  if (value === null) return ["There is no value: the remarks say why."];
  const estimates = rounds.filter((round) => round.counts).map((round) => round.estimate);
  const origin = estimates.length
    ? `The value is the median of the estimates of ${estimates.length} ${estimates.length === 1 ? "round" : "rounds"}, from ${Numbers.seconds(Math.min(...estimates))} to ${Numbers.seconds(Math.max(...estimates))}.`
    : "The value is the one that asv stored: the rounds below are not those that it was made from.";
  if (interval === null) return [origin, "There is no interval: the remarks say what is missing."];
  const [times, differences] = [Numbers.seconds, (end) => Numbers.difference(end / value - 1)].map((words) => `${words(low)} to ${words(high)}`);
  return [origin, `${interval}: ${times}, ${differences}.`];
}

function showValue(series, rounds, fit) {
  const { value, flop, operation } = series;
  $("title").replaceChildren(foreign(series.benchmark), " · ", foreign(series.implementation), " · ", foreign(series.case));
  const rate = flop ? ` · ${Numbers.value(flop / value / 1e9, `G${operation}S`)}` : "";
  $("value").replaceChildren(...(value === null ? [series.outcome] : [Numbers.seconds(value), span("detail", ` per call${rate}`)]));
  const sentences = [...formed(series, rounds), ...(value === null ? [] : [adjustment(series, rounds, fit)])];
  $("formed").replaceChildren(...sentences.map((text) => make("p", {}, text)));
  $("remarks").replaceChildren(...series.remarks.map((text) => make("li", {}, foreign(text))));
}

// ---- small charts as SVG: axes with round numbers, and on them lines and dots -------------------------------------------
// Note: tried Bokeh: the eight figures of a measurement take it .4 to 1.1 s at every choice, these 15 to 33 ms. Made by
// Python when the site is written, they would be ten times the data (14.6 kB for 1.4 kB of a series' rounds).

// In the chart's own units. The page scales the chart to its column; a narrow one keeps its text legible on a phone
const WIDTH = Math.min(520, Math.max(300, document.documentElement.clientWidth - 56)), HEIGHT = 250;
const [LEFT, RIGHT, TOP, BOTTOM] = [58, WIDTH - 14, 10, HEIGHT - 42]; // of the frame

function svgNode(name, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

/** Returns an axis with some room around all values, at least the fraction `least` of their middle to either side. */
function axisAround(title, values, least = 0) {
  const known = values.filter(Number.isFinite);
  const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
  const middle = (low + high) / 2;
  const half = Math.max((high - low) / 2, least * Math.abs(middle)) || Math.abs(middle) / 2 || 1;
  return { title, low: middle - 1.12 * half, high: middle + 1.12 * half };
}

/** Returns a chart in a figure: `lines` as [class, points], the lowest first, and `dots` as [x, y, class, title]. */
function figure({ title, caption, x, y, lines, dots }) {
  const across = (value) => LEFT + ((RIGHT - LEFT) * (value - x.low)) / (x.high - x.low);
  const up = (value) => Math.min(Math.max(BOTTOM - ((BOTTOM - TOP) * (value - y.low)) / (y.high - y.low), TOP), BOTTOM);
  const text = (content, anchor, place) => svgNode("text", { ...place, "text-anchor": anchor }, content);
  const path = ([className, points]) => svgNode("polyline", { class: className, points: points.map(([a, b]) => `${across(a).toFixed(1)},${up(b).toFixed(1)}`).join(" ") });
  const level = (value) => path(["grid", [[x.low, value], [x.high, value]]]);
  const svg = svgNode("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${caption}` });
  svg.append(
    ...Numbers.ticks(y.low, y.high, 4).flatMap((value) => [level(value), text(Numbers.tick(value), "end", { x: LEFT - 7, y: up(value) + 4 })]),
    ...Numbers.ticks(x.low, x.high, 5).map((value) => text(Numbers.tick(value), "middle", { x: across(value), y: BOTTOM + 17 })),
    text(y.title, "middle", { transform: `translate(12 ${(TOP + BOTTOM) / 2}) rotate(-90)` }),
    text(x.title, "middle", { x: (LEFT + RIGHT) / 2, y: HEIGHT - 6 }), level(y.low), ...lines.map(path),
    ...dots.map(([a, b, className, words]) => {
      const dot = svgNode("circle", { class: className, cx: across(a), cy: up(b), r: 4.5 });
      dot.append(svgNode("title", {}, words));
      return dot;
    }),
  );
  return make("figure", {}, make("figcaption", {}, make("strong", {}, title), caption), svg);
}

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
  const scaled = (seconds) => seconds / scale;
  const adjusted = rounds.filter((round) => round.adjusted !== undefined);
  const whiskers = rounds.filter((round) => round.half_width)
    .map((round) => ["whisker", [-1, 1].map((sign) => [minutes(round), scaled(round.estimate * (1 + sign * round.half_width))])]);
  const heights = [...rounds.map((round) => round.estimate), ...adjusted.map((round) => round.adjusted), low ?? NaN, high ?? NaN];
  const x = axisAround("minutes since the first round", rounds.map(minutes));
  const y = axisAround(`time per call, ${name}`, heights.map(scaled), 0.005);
  return figure({
    title: "Over time",
    caption: `Each dot is the estimate of a round, its bar the interval from that round's samples. Line and band: the value and its 95% interval.${
      adjusted.length ? " Rings: the same rounds, adjusted." : ""} A slope or waves: the machine changed meanwhile.`,
    x, y, lines: [
      ...(low === null ? [] : [["band", [[x.low, scaled(low)], [x.high, scaled(low)], [x.high, scaled(high)], [x.low, scaled(high)]]]]),
      ...(value === null ? [] : [["level", [[x.low, scaled(value)], [x.high, scaled(value)]]]]), ...whiskers,
    ],
    dots: [
      ...rounds.map((round) => [minutes(round), scaled(round.estimate), dotClass(round), roundText(round)]),
      ...adjusted.map((round) => [minutes(round), scaled(round.adjusted), "adjusted", `round ${round.number}, adjusted: ${Numbers.seconds(round.adjusted)}`]),
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
  const [x, y] = [`${title}, %`, "estimate, %"].map((name, axis) => axisAround(name, points.map((point) => point[axis]), 0.05));
  const line = [x.low, x.high].map((change) => [change, 100 * ((1 + change / 100) ** slope - 1)]);
  const used = slope ? `Where it takes 1% longer, ${Numbers.significant(slope)}% is taken off (line).` : "The series is not known to move with it, so it is not adjusted by it.";
  return figure({
    title, caption: `The ${title}, timed beside the samples, against the estimate; both as differences from their usual values. ${used}`,
    x, y, lines: slope ? [["path", line]] : [], dots: points,
  });
}

// ---- the table of the rounds, whose columns and words data/rounds-index has --------------------------------------------

/** Returns a Unix time, s, as text. */
function moment(seconds) {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? "at no known time" : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

const FORMATS = { // of the kinds of values; others have the kind as their unit
  moment, text: foreign, s: Numbers.seconds, count: Numbers.count, number: Numbers.significant, difference: Numbers.difference,
  "%": (value) => `${Numbers.significant(100 * value)}%`, "±%": (value) => `±${Numbers.significant(100 * value)}%`,
  MHz: (value) => `${Numbers.significant(value / 1e6)} MHz`,
};

/** Fills the table with the columns that some round has, and explains the words that occur in it. */
function showRounds({ columns, words }, rounds) {
  const used = columns.filter(([name]) => rounds.some((round) => isKnown(round[name])));
  const text = (value, kind) => (!isKnown(value) ? "–" : FORMATS[kind]?.(value) ?? `${value} ${kind}`);
  $("rounds").replaceChildren(table(used.map(([, heading]) => heading), rounds.map((round) => used.map(([name, , kind]) => text(round[name], kind)))));
  const occurring = new Set(rounds.flatMap(({ stop, flags }) => [stop, ...(flags ?? "").split(" ")]));
  const explained = [...occurring].filter((word) => words[word]).map((word) => [word, words[word]]);
  if (!rounds.every((round) => round.counts)) explained.push(["grey dots", "rounds of another timing method: kept, and not part of the value"]);
  $("words").replaceChildren(...explained.map(([word, meaning]) => make("div", {}, make("dt", {}, word), " ", make("dd", {}, meaning))));
}

// ---- choosing -------------------------------------------------------------------------------------------------------

/** Returns the first of some measured commits, [SHA, number of its place], that has rounds of a series, else one whose file is lost, or null. */
async function firstOf(index, commits, series) {
  let lost = null;
  for (const commit of commits) {
    const measured = await loadMeasured(index, ...commit);
    if (measured === null) lost ??= commit;
    else if (series === null || series in measured) return commit;
  }
  return lost;
}

/** Shows what the form, or `wanted`, a series, asks for; `isStep` adds an entry to the history. */
async function showMeasurement(index, commitOf, wanted, isStep) {
  const mine = (turn += 1);
  const [sha, place] = fieldsOf.commit.value.split(" ");
  const [measured, fits] = await Promise.all([loadMeasured(index, sha, place), loadOrNull(`fits-${place}`)]);
  if (mine !== turn) return;
  const labels = Object.entries(measured ?? {}).map(([name, of]) => [name, [of.benchmark, of.implementation, of.case].map(isolated).join(" · ")]);
  if (measured !== null) fill(fieldsOf.series, labels, wanted ?? fieldsOf.series.value);
  const name = measured === null ? wanted : fieldsOf.series.value;
  Address.write(new URLSearchParams({ commit: sha, ...(name && { series: name }) }), isStep);
  $("commit").replaceChildren(commitLink(commitOf(sha)), " ", foreign(commitOf(sha).subject));
  const series = measured?.[name];
  $("measurement").hidden = series === undefined;
  if (measured === null) return say("The rounds of this commit cannot be loaded.");
  if (series === undefined) return say("None of this commit's rounds are of a series that the site shows.");
  const fit = fits?.series[name] ?? null;
  const rounds = roundsOf(series, fit);
  showValue(series, rounds, fit);
  const gauges = Object.entries(index.gauges).map(([gauge, title]) => againstGauge(gauge, title, rounds, fit));
  $("charts").replaceChildren(overTime(series, rounds), ...gauges.filter((figure) => figure !== null));
  showRounds(index, rounds);
  say("");
  document.body.dataset.ready = `${sha} ${name}`;
}

/** Shows what the address asks for; the newest commit where it asks for nothing, or for nothing recorded. */
async function followAddress(index, commitOf) {
  const mine = (turn += 1);
  const query = Address.read();
  const [prefix, series] = [query.get("commit") ?? "", query.get("series")];
  const commits = index.places.flatMap((place, number) => place.commits.map((sha) => [sha, number]));
  const commit = prefix && await firstOf(index, commits.filter(([sha]) => sha.startsWith(prefix)), series);
  if (mine !== turn) return;
  const placed = ({ machine, environment }) => (index.places.length > 1 ? ` · ${isolated(machine)} · ${isolated(environment)}` : "");
  fill(fieldsOf.commit, commits.map(([sha, number]) =>
    [`${sha} ${number}`, `${sha.slice(0, 8)} ${isolated(commitOf(sha).subject.slice(0, 64))}${placed(index.places[number])}`]), commit ? commit.join(" ") : "");
  const shown = showMeasurement(index, commitOf, commit ? series : null, false);
  const latest = turn;
  await shown;
  if (latest === turn && (prefix || series) && !commit) say("Nothing is recorded of what the address asks for: the newest commit is shown.");
}

async function startMeasurement() {
  const [index, commits] = await Promise.all([KV.load("rounds-index"), loadOrNull("commits")]);
  const bySha = new Map(commits?.commits.map((commit) => [commit.sha, commit]));
  const commitOf = (sha) => bySha.get(sha) ?? { sha, subject: "", page: `commit-${inName(index, sha)}.html` }; // of one beside the line
  $("choice").addEventListener("change", () => showMeasurement(index, commitOf, null, true));
  window.addEventListener("hashchange", () => followAddress(index, commitOf));
  await followAddress(index, commitOf);
}

if (fieldsOf) startMeasurement().catch(() => say("The rounds cannot be loaded: is the folder data/ beside this page?"));
