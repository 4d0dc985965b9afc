// The page of a measurement: the rounds of one series at one commit (site/pages/measurement.py). The choice lives in the
// address: #commit=<SHA>&series=<name>.
"use strict";

const $ = (id) => document.getElementById(id);
const fieldsOf = $("choice")?.elements;
let turn = 0; // number of the latest request

const isKnown = (value) => value !== null && value !== undefined;
const loadOrNull = (name) => KV.load(name).catch(() => null);
const say = (text) => { $("status").textContent = text; };

/** Returns the values of a column (site/pages/measurement.py): `runs` of equal ones, or `steps` from one to the next. */
function valuesOf({ runs, per, steps }) {
  let sum = 0;
  return runs ? spread(runs) : steps.map((step) => (step === null ? null : (sum += step) / per));
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

/** Returns a promise of what was measured of a commit at a place, by name, or null where its files are lost. */
async function loadMeasured(sha, place) {
  const file = await loadOrNull(`rounds-${sha.slice(0, 8)}-${place}`);
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

/** Links to the raw samples of a series, or says how to record some. */
function showTraces({ traces }, series) {
  const trace = traces.find((names) => [series.benchmark, series.implementation, series.case].every((name, at) => name === names[at]));
  $("trace").replaceChildren(...(trace ? [make("a", { href: trace[3] }, "Raw samples of this series"), ", recorded in this clone by ", make("code", {}, "kv lab record"), "."]
    : ["A round keeps its estimate, not its samples. ", make("code", {}, "kv lab record"), " records raw samples of every series."]));
}

// ---- choosing -------------------------------------------------------------------------------------------------------

/** Returns the first of some measured commits, [SHA, number of its place], that has rounds of a series, else one whose file is lost, or null. */
async function firstOf(commits, series) {
  let lost = null;
  for (const commit of commits) {
    const measured = await loadMeasured(...commit);
    if (measured === null) lost ??= commit;
    else if (series === null || series in measured) return commit;
  }
  return lost;
}

/** Shows what the form, or `wanted`, a series, asks for; `isStep` adds an entry to the history. */
async function showMeasurement(index, commitOf, wanted, isStep) {
  const mine = (turn += 1);
  const [sha, place] = fieldsOf.commit.value.split(" ");
  const [measured, fits] = await Promise.all([loadMeasured(sha, place), loadOrNull(`fits-${place}`)]);
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
  showTraces(index, series);
  say("");
  document.body.dataset.ready = `${sha} ${name}`;
}

/** Shows what the address asks for; the newest commit where it asks for nothing, or for nothing recorded. */
async function followAddress(index, commitOf) {
  const mine = (turn += 1);
  const query = Address.read();
  const [prefix, series] = [query.get("commit") ?? "", query.get("series")];
  const commits = index.places.flatMap((place, number) => place.commits.map((sha) => [sha, number]));
  const commit = prefix && await firstOf(commits.filter(([sha]) => sha.startsWith(prefix)), series);
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
  const [index, commitOf] = await Promise.all([KV.load("rounds-index"), loadCommits()]);
  $("choice").addEventListener("change", () => showMeasurement(index, commitOf, null, true));
  window.addEventListener("hashchange", () => followAddress(index, commitOf));
  await followAddress(index, commitOf);
}

if (fieldsOf) startMeasurement().catch(() => say("The rounds cannot be loaded: is the folder data/ beside this page?"));
