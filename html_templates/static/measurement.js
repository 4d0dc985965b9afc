// The page of a measurement: the rounds of one series at one commit (site/pages/measurement.py). The choice lives in the
// address: #commit=<SHA>&series=<name>&trace=<name>.
"use strict";

const $ = (id) => document.getElementById(id);
const form = $("choice");
let turn = 0; // number of the latest request

const isKnown = (value) => value !== null && value !== undefined;
const isolated = (text) => `\u2068${text}\u2069`; // an option holds no <bdi>
const loadOrNull = (name) => KV.load(name).catch(() => null);
const say = (text) => { $("status").textContent = text; };

/** Returns a Unix time, s, as text. */
function moment(seconds) {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? "at no known time" : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** Returns the values of a column (site/pages/measurement.py): `runs` of equal ones, or `steps` from one to the next. */
function valuesOf({ runs, per, steps }) {
  let sum = 0;
  return runs ? spread(runs) : steps.map((step) => (step === null ? null : (sum += step) / per));
}

/** Returns the series of a commit that have rounds, by name. `labels`: what the columns of `file` are of. */
function seriesOf(file, labels) {
  const rounds = Object.entries(file.rounds).map(([name, column]) => [name, valuesOf(column)]);
  const [outcome, method, remarks, interval, low, high] = ["outcome", "method", "remarks", "interval", "low", "high"].map((name) => valuesOf(file[name]));
  const series = {};
  let start = 0;
  labels.forEach(({ name, ...label }, at) => {
    const [base, end] = [file.base[at], start + file.count[at]];
    const columns = Object.fromEntries(rounds.map(([column, values]) => [column, values.slice(start, end)]));
    columns.estimate = columns.estimate.map((value) => base * (1 + value));
    const ends = [low[at], high[at]].map((value) => (value === null ? null : base * (1 + value)));
    if (end > start) {
      series[name] = {
        ...label, outcome: outcome[at], method: method[at], remarks: remarks[at], rounds: columns,
        value: outcome[at] === "measured" ? base : null, interval: { method: interval[at], ends }, low: ends[0], high: ends[1],
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
      round.adjusted = Math.exp(Math.log(round.estimate) - signal);
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
function formed({ value, interval }, rounds) {
  if (value === null) return ["There is no value: the remarks say why."];
  const estimates = rounds.filter((round) => round.counts).map((round) => round.estimate);
  const spanned = [Math.min(...estimates), Math.max(...estimates)].map(Numbers.seconds).join(" to ");
  const origin = estimates.length
    ? `The value is the median of the estimates of ${estimates.length} ${estimates.length === 1 ? "round" : "rounds"}, from ${spanned}.`
    : "The value is the one that asv stored: the rounds below are not those that it was made from.";
  if (interval.method === null) return [origin, "There is no interval: the remarks say what is missing."];
  const differences = interval.ends.map((end) => Numbers.difference(end / value - 1)).join(" to ");
  return [origin, `${interval.method}: ${interval.ends.map(Numbers.seconds).join(" to ")}, ${differences}.`];
}

function showValue(series, rounds, fit) {
  const { value, flop, operation } = series;
  $("title").replaceChildren(foreign(series.benchmark), " · ", foreign(series.implementation), " · ", foreign(series.case));
  const rate = flop ? ` · ${Numbers.rate(flop / value / 1e9, operation)}` : "";
  $("value").replaceChildren(...(value === null ? [series.outcome] : [Numbers.seconds(value), span("detail", ` per call${rate}`)]));
  const sentences = [...formed(series, rounds), ...(value === null ? [] : [adjustment(series, rounds, fit)])];
  $("formed").replaceChildren(...sentences.map((text) => make("p", {}, text)));
  $("remarks").replaceChildren(...series.remarks.map((text) => make("li", {}, foreign(text))));
}

// ---- the table of the rounds ----------------------------------------------------------------------------------------

const percent = (value) => `${Numbers.significant(100 * value)}%`;
const megahertz = (value) => `${Numbers.significant(value / 1e6)} MHz`;
const COLUMNS = [ // name, heading, format
  ["number", "round", String], ["began", "began", moment], ["estimate", "estimate", Numbers.seconds],
  ["adjusted", "adjusted", Numbers.seconds], ["half_width", "within the run", (value) => `±${percent(value)}`],
  ["n", "samples", Numbers.count], ["effective", "effective samples", Numbers.significant],
  ["batch", "calls a sample", Numbers.count], ["spent", "timing", Numbers.seconds],
  ["stop", "stopped because", foreign], ["flags", "flags", foreign],
  ["waited", "waited for a quiet core", Numbers.seconds], ["cv", "scatter of samples", percent],
  ["autocorrelation", "lag-1 autocorrelation", (value) => value.toFixed(2)], ["drift", "drift", Numbers.difference],
  ["core_gauge", "core gauge", Numbers.seconds], ["memory_gauge", "memory gauge", Numbers.seconds],
  ["control_gauge", "control beside it", Numbers.seconds], ["waiting", "caller waits beyond it", Numbers.seconds],
  ["sm_before", "SM clock before", megahertz], ["sm_after", "after", megahertz],
  ["memory_before", "memory clock before", megahertz], ["memory_after", "after", megahertz],
  ["power", "power", (value) => `${value} W`], ["temperature", "temperature", (value) => `${value} °C`],
  ["setup", "set-up", Numbers.seconds], ["warmup", "warm-up", Numbers.seconds],
  ["overhead", "empty call", Numbers.seconds], ["tick", "clock's tick", Numbers.seconds],
  ["load", "load", Numbers.significant], ["switches", "switches", Numbers.count], ["steal", "stolen", Numbers.seconds],
  ["launch", "launch", String],
];

/** Fills the table with the columns that some round has, and explains the words that occur in it. */
function showRounds(meanings, rounds) {
  const used = COLUMNS.filter(([name]) => rounds.some((round) => isKnown(round[name])));
  const rows = rounds.map((round) => used.map(([name, , format]) => (isKnown(round[name]) ? format(round[name]) : "–")));
  $("rounds").replaceChildren(table(used.map(([, heading]) => heading), rows));
  const words = rounds.flatMap(({ stop, flags }) => [stop, ...(flags ?? "").split(" ")]);
  const explained = [...new Set(words)].filter((word) => meanings[word]).map((word) => [word, meanings[word]]);
  if (!rounds.every((round) => round.counts)) explained.push(["grey dots", "rounds of another timing method: kept, and not part of the value"]);
  $("words").replaceChildren(...explained.map(([word, text]) => make("div", {}, make("dt", {}, word), " ", make("dd", {}, text))));
}

// ---- raw samples ----------------------------------------------------------------------------------------------------

/** Shows the raw samples of a series. The chosen trace is added to `query`, the address of what is shown. */
async function showTraces(index, series, mine, query) {
  const record = make("code", {}, "kv lab record");
  const show = (hint, ...more) => $("trace").replaceChildren(make("p", { class: "hint" }, ...hint), ...more);
  const entry = index.traces.find(([benchmark, implementation, testCase]) =>
    benchmark === series.benchmark && implementation === series.implementation && testCase === series.case);
  if (!entry) {
    show(["A round keeps its estimate, not its samples. ", record, " records raw samples of every series; they are then shown here."]);
    return;
  }
  const data = await loadOrNull(entry[3]);
  if (mine !== turn) return;
  if (data === null) {
    show(["The samples cannot be loaded."]);
    return;
  }
  const select = make("select", { "aria-label": "trace" }, ...data.traces.map((trace) => make("option", { value: trace.process },
    `${trace.process}: ${Numbers.count(trace.samples)} samples of ${trace.batch} ${trace.batch === 1 ? "call" : "calls"}, ${trace.timer}, ${moment(trace.began)}`)));
  const plots = make("div", { class: "plots" });
  const draw = () => plots.replaceChildren(...traceCharts(data.traces[select.selectedIndex]));
  Address.set(select, query.get("trace"), select.value);
  const gone = query.has("trace") && query.get("trace") !== select.value ? " The trace that the address names is not among them." : "";
  select.addEventListener("change", () => {
    draw();
    query.set("trace", select.value);
    Address.write(query, true);
  });
  draw();
  show(["Recorded by ", record, " in this clone, at the time it says: not the samples of the rounds above, and perhaps of another commit.", gone],
    make("p", { class: "controls" }, select), plots);
}

// ---- choosing -------------------------------------------------------------------------------------------------------

/** Fills a select with [value, text] pairs, and chooses a value, or the first one. */
function fill(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => make("option", { value: key }, text)));
  select.value = options.some(([key]) => key === value) ? value : options[0]?.[0] ?? "";
}

/** Offers the series of a commit, keeps the chosen parts where possible; returns the name of the chosen series. */
function offer(series, wanted) {
  let left = Object.entries(series);
  for (const part of ["benchmark", "implementation", "case"]) {
    const select = form.elements[part];
    const values = [...new Set(left.map(([, labels]) => labels[part]))];
    fill(select, values.map((value) => [value, value]), series[wanted]?.[part] ?? select.value);
    left = left.filter(([, labels]) => labels[part] === select.value);
  }
  return left[0]?.[0];
}

/** Returns the number of the place that has rounds of a series at a commit, else of one whose file is lost, or null. */
async function placeOf(index, commit, series) {
  let lost = null;
  for (const [number, place] of index.places.entries()) {
    if (!place.commits.includes(commit)) continue;
    const measured = await loadMeasured(commit, number);
    if (measured === null) lost ??= number;
    else if (series === null || series in measured) return number;
  }
  return lost;
}

/** Shows what the form, or `wanted`, asks for; `isStep` adds an entry to the history. */
async function show(index, commitOf, wanted, isStep) {
  const mine = (turn += 1);
  const place = Number(form.elements.place.value);
  const texts = index.places[place].commits.map((sha) => [sha, `${sha.slice(0, 8)} ${isolated(commitOf(sha).subject.slice(0, 64))}`]);
  fill(form.elements.commit, texts, wanted?.commit ?? form.elements.commit.value);
  const sha = form.elements.commit.value;
  const [measured, fits] = await Promise.all([loadMeasured(sha, place), loadOrNull(`fits-${place}`)]);
  if (mine !== turn) return;
  const name = measured === null ? wanted?.series : offer(measured, wanted?.series);
  const query = new URLSearchParams(Object.entries({ commit: sha, series: name, trace: wanted?.trace }).filter(([, value]) => value));
  Address.write(query, isStep);
  $("commit").replaceChildren(commitLink(commitOf(sha)), " ", foreign(commitOf(sha).subject));
  const series = measured?.[name];
  $("measurement").hidden = series === undefined;
  if (measured === null) return say("The rounds of this commit cannot be loaded.");
  if (series === undefined) return say("None of this commit's rounds are of a series that the site shows.");
  const fit = fits?.series[name] ?? null;
  const rounds = roundsOf(series, fit);
  showValue(series, rounds, fit);
  $("charts").replaceChildren(...roundCharts(series, rounds, fit));
  showRounds(index.words, rounds);
  await showTraces(index, series, mine, query);
  if (mine !== turn) return;
  say("");
  document.body.dataset.ready = `${sha} ${name}`;
}

/** Shows what the address asks for; the newest commit where it asks for nothing, or for nothing recorded. */
async function follow(index, commitOf) {
  const mine = (turn += 1);
  const query = Address.read();
  const [prefix, series] = [query.get("commit") ?? "", query.get("series")];
  const commit = prefix ? index.places.flatMap((place) => place.commits).find((sha) => sha.startsWith(prefix)) : undefined;
  const number = commit === undefined ? null : await placeOf(index, commit, series);
  if (mine !== turn) return;
  const places = index.places.map((place, at) => [String(at), `${isolated(place.machine)} · ${isolated(place.environment)}`]);
  fill(form.elements.place, places.filter((_, at) => index.places[at].commits.length), String(number));
  const wanted = number === null ? {} : { series: series ?? undefined, trace: query.get("trace") };
  const shown = show(index, commitOf, { commit, ...wanted }, false);
  const latest = turn;
  await shown;
  if (latest === turn && (prefix || series) && number === null) say("Nothing is recorded of what the address asks for: the newest commit is shown.");
}

async function start() {
  const [index, commitOf] = await Promise.all([KV.load("rounds-index"), loadCommits()]);
  form.addEventListener("change", () => show(index, commitOf, undefined, true));
  window.addEventListener("hashchange", () => follow(index, commitOf));
  await follow(index, commitOf);
}

if (form !== null) start().catch(() => say("The rounds cannot be loaded: is the folder data/ beside this page?"));
