// The page of a measurement: loads the rounds of a commit (site/rounds_data.py) and shows one series of them. The
// choice lives in the address, #commit=<SHA>&series=<name>&trace=<name>. Whatever is text is set as text.
"use strict";

const $ = (id) => document.getElementById(id);
const form = $("choice");
const words = (id) => JSON.parse($(id).textContent);
let turn = 0; // what was asked for last

const RECORD = () => make("code", {}, "kv lab record");
const isolated = (text) => `\u2068${text}\u2069`; // of an option, which holds no element: its letters turn no others around

/** Returns a Unix time, s, as text. */
function moment(seconds) {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? "at no known time" : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** Returns the rounds of a series as objects, in the order of time, with their adjusted estimates where there are. */
function roundsOf(one, fit) {
  const columns = Object.entries(one.rounds);
  const rounds = one.rounds.estimate.map((_, index) => Object.fromEntries(
    columns.map(([name, values]) => [name, values[index]]),
  ));
  rounds.forEach((round, index) => { round.number = index + 1; });
  const gauges = fit && fit.method === one.method
    ? Object.entries(fit.signals).filter(([, [, centre]]) => centre !== null) : [];
  const counted = rounds.filter((round) => round.counts);
  const read = (round) => gauges.filter(([name]) => round[name] !== null && round[name] !== undefined);
  if (gauges.length && counted.every((round) => read(round).length)) {
    for (const round of counted) {
      const signal = read(round).reduce((sum, [name, [slope, centre]]) => sum + slope * Math.log(round[name] / centre), 0);
      round.adjusted = Math.exp(Math.log(round.estimate) - signal);
    }
  }
  return rounds;
}

// ---- the value and how it was formed ---------------------------------------------------------------------------

function rate(one, seconds) {
  return one.flop ? Numbers.rate(one.flop / seconds / 1e9, one.operation) : "";
}

function formed(one, rounds, fit) {
  const counted = rounds.filter((round) => round.counts);
  const lines = [];
  if (one.value === null) return ["There is no value: the remarks say why."];
  lines.push(counted.length
    ? `The value is the median of the estimates of ${counted.length} ${counted.length === 1 ? "round" : "rounds"}, from ${Numbers.seconds(Math.min(...counted.map((round) => round.estimate)))} to ${Numbers.seconds(Math.max(...counted.map((round) => round.estimate)))}.`
    : "The value is the one that asv stored: the rounds below are not those that it was made from.");
  if (one.low !== null) {
    lines.push(`${one.interval}: ${Numbers.seconds(one.low)} to ${Numbers.seconds(one.high)}, ${Numbers.difference(one.low / one.value - 1)} to ${Numbers.difference(one.high / one.value - 1)}.`);
  } else {
    lines.push("There is no interval: the remarks say what is missing.");
  }
  const adjusted = counted.filter((round) => round.adjusted !== undefined).map((round) => round.adjusted);
  if (adjusted.length) {
    const parts = Object.entries(fit.signals).map(([name, [slope]]) => `${SIGNALS[name] ?? name} ${Numbers.significant(slope)}`);
    const explained = fit.explained === null ? "" : ` They explain ${Numbers.share(fit.explained)} of how the rounds of the same code differ.`;
    lines.push(`Adjusted: ${Numbers.seconds(median(adjusted))}, what it would have been had the machine kept its usual pace. Changes are judged by it. Slopes used: ${parts.join(", ")}.${explained}`);
  } else if (fit && fit.signals.controls && fit.method === one.method) {
    lines.push(`It is adjusted by ${SIGNALS.controls}, with slope ${Numbers.significant(fit.signals.controls[0])}; the commit's page has the adjusted value.`);
  } else {
    lines.push("It is not adjusted: nothing was read beside its rounds that it is known to move with.");
  }
  return lines;
}

function showValue(one, rounds, fit) {
  $("title").replaceChildren(foreign(one.benchmark), " · ", foreign(one.implementation), " · ", foreign(one.case));
  const value = one.value === null ? one.outcome : Numbers.seconds(one.value);
  const detail = one.value === null ? "" : [" per call", rate(one, one.value)].filter(Boolean).join(" · ");
  $("value").replaceChildren(value, make("span", { class: "detail" }, detail));
  $("formed").replaceChildren(...formed(one, rounds, fit).map((text) => make("p", {}, text)));
  $("remarks").replaceChildren(...one.remarks.map((text) => make("li", {}, foreign(text))));
}

function showCharts(one, rounds, fit) {
  const unit = Numbers.unit(one.value ?? median(rounds.map((round) => round.estimate)));
  const counted = rounds.filter((round) => round.counts).map((round) => round.estimate);
  const pairs = counted.length - 1;
  const figures = [overTime(one, rounds, unit), distribution(one, rounds, unit)];
  figures.push(pairs >= 2
    ? lagPlot("Lag plot", "Each round against the one after it. A cloud without a shape: a round knows nothing of the one before, as the interval assumes. Along the dashed line: slow rounds follow slow ones.", counted.slice(0, -1), counted.slice(1), unit)
    : chart("Lag plot", "Each round against the one after it: needs 3 rounds."));
  figures.push(one.correlogram.length
    ? correlogram("Autocorrelation", "How much rounds so many places apart resemble each other: 1 alike, 0 not at all.", one.correlogram.map((_, index) => index + 1), one.correlogram, counted.length, "rounds")
    : chart("Autocorrelation", "How much rounds so many places apart resemble each other: needs 4 rounds that are not all equal."));
  for (const name of ["core_gauge", "memory_gauge", "control_gauge"]) figures.push(beside(name, rounds, fit));
  figures.push(clocks(rounds));
  $("charts").replaceChildren(...figures.filter(Boolean));
}

// ---- the table of the rounds ------------------------------------------------------------------------------------------------------

const relative = (value) => `±${Numbers.significant(100 * value)}%`;
const megahertz = (value) => `${Numbers.significant(value / 1e6)} MHz`;
const COLUMNS = [
  ["number", "round", String], ["began", "began", moment], ["estimate", "estimate", Numbers.seconds],
  ["adjusted", "adjusted", Numbers.seconds], ["half_width", "within the run", relative],
  ["n", "samples", Numbers.count], ["effective", "effective samples", Numbers.significant],
  ["batch", "calls a sample", Numbers.count], ["spent", "timing", Numbers.seconds],
  ["stop", "stopped because", (text) => foreign(text)], ["flags", "flags", (text) => foreign(text)],
  ["waited", "waited for a quiet core", Numbers.seconds], ["cv", "scatter of samples", (value) => `${Numbers.significant(100 * value)}%`],
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

function showRounds(rounds) {
  const known = (value) => value !== null && value !== undefined;
  const used = COLUMNS.filter(([name]) => rounds.some((round) => known(round[name])));
  const rows = rounds.map((round) => used.map(([name, , format]) => (known(round[name]) ? format(round[name]) : "–")));
  $("rounds").replaceChildren(table(used.map(([, head]) => head), rows));
  const [stops, flags] = [words("stop-words"), words("flag-words")];
  const said = new Map();
  for (const round of rounds) {
    if (stops[round.stop]) said.set(round.stop, stops[round.stop]);
    for (const flag of (round.flags ?? "").split(" ")) if (flags[flag]) said.set(flag, flags[flag]);
  }
  if (rounds.some((round) => !round.counts)) said.set("grey dots", "rounds of another timing method: kept, and not part of the value");
  $("words").replaceChildren(...[...said].map(([word, text]) => make("div", {}, make("dt", {}, word), " ", make("dd", {}, text))));
}

// ---- raw samples -------------------------------------------------------------------------------------------------

/** Shows the raw samples of a series; which of its traces stands in the address `said` of what is shown. */
async function showTraces(index, one, asked, said) {
  const found = index.traces.find(([benchmark, implementation, testCase]) => benchmark === one.benchmark && implementation === one.implementation && testCase === one.case);
  if (!found) {
    $("trace").replaceChildren(make("p", { class: "hint" }, "A round keeps its estimate, not its samples. ", RECORD(), " records raw samples of every series; they are then shown here."));
    return;
  }
  const data = await KV.load(found[3]).catch(() => null);
  if (asked !== turn) return;
  if (data === null) {
    $("trace").replaceChildren(make("p", { class: "hint" }, "The samples cannot be loaded."));
    return;
  }
  const select = make("select", { "aria-label": "trace" }, ...data.traces.map((trace) => make("option", { value: trace.process },
    `${trace.process}: ${Numbers.count(trace.samples)} samples of ${trace.batch} ${trace.batch === 1 ? "call" : "calls"}, ${trace.timer}, ${moment(trace.began)}`)));
  const plots = make("div", { class: "plots" });
  const update = () => plots.replaceChildren(...traceCharts(data.traces[select.selectedIndex]));
  Address.set(select, said.get("trace"), select.value);
  const gone = said.has("trace") && said.get("trace") !== select.value ? " The trace that the address names is not among them." : "";
  select.addEventListener("change", () => {
    update();
    said.set("trace", select.value);
    Address.write(said, true);
  });
  update();
  $("trace").replaceChildren(make("p", { class: "hint" }, "Recorded by ", RECORD(), " in this clone, at the time it says: not the samples of the rounds above, and perhaps of another commit.", gone),
    make("p", { class: "controls" }, select), plots);
}

// ---- choosing ----------------------------------------------------------------------------------------------------

function fill(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => make("option", { value: key }, text)));
  select.value = options.some(([key]) => key === value) ? value : options[0]?.[0] ?? "";
}

/** Offers what the commit's rounds have, the chosen parts kept where they are there; returns the name of the series. */
function offer(series, wanted) {
  const entries = Object.entries(series);
  const start = wanted ? series[wanted] : undefined;
  let left = entries;
  for (const part of ["benchmark", "implementation", "case"]) {
    const select = form.elements[part];
    const values = [...new Set(left.map(([, one]) => one[part]))];
    fill(select, values.map((value) => [value, value]), start ? start[part] : select.value);
    left = left.filter(([, one]) => one[part] === select.value);
  }
  return left[0]?.[0];
}

function say(text) {
  $("status").textContent = text;
}

/** Returns the place that has rounds of a series at a commit, or may have had them in a file that is lost; else null. */
async function find(index, commit, series) {
  let lost = null;
  for (const [number, place] of index.places.entries()) {
    if (!place.commits.includes(commit)) continue;
    const data = await KV.load(`rounds-${commit.slice(0, 8)}-${number}`).catch(() => null);
    if (data === null) lost ??= number;
    else if (series === null || series in data.series) return number;
  }
  return lost;
}

/** Shows what the form, or `wanted`, asks for; `isStep`: the reader's way back leads to what was shown before. */
async function show(index, commits, wanted, isStep) {
  const asked = (turn += 1);
  const number = Number(form.elements.place.value);
  const known = index.places[number].commits;
  const short = (sha) => `${sha.slice(0, 8)} ${isolated((commits.get(sha)?.subject ?? "").slice(0, 64))}`;
  fill(form.elements.commit, known.map((sha) => [sha, short(sha)]), wanted?.commit ?? form.elements.commit.value);
  const sha = form.elements.commit.value;
  const [data, fits] = await Promise.all([`rounds-${sha.slice(0, 8)}-${number}`, `fits-${number}`].map((name) => KV.load(name).catch(() => null)));
  if (asked !== turn) return;
  const name = data === null ? wanted?.series : offer(data.series, wanted?.series);
  const said = new URLSearchParams(Object.entries({ commit: sha, series: name, trace: wanted?.trace }).filter(([, value]) => value));
  Address.write(said, isStep);
  showCommit(sha, commits.get(sha));
  const one = data?.series[name];
  $("measurement").hidden = one === undefined;
  if (data === null) return say("The rounds of this commit cannot be loaded.");
  if (one === undefined) return say("None of this commit's rounds are of a series that the site shows.");
  const fit = fits?.series[name] ?? null;
  const rounds = roundsOf(one, fit);
  showValue(one, rounds, fit);
  showCharts(one, rounds, fit);
  showRounds(rounds);
  await showTraces(index, one, asked, said);
  if (asked !== turn) return;
  say("");
  document.body.dataset.ready = `${sha} ${name}`;
}

function showCommit(sha, commit) {
  const href = commit?.page ?? `commit-${sha.slice(0, 8)}.html`;
  $("commit").replaceChildren(make("a", { class: "sha", href }, sha.slice(0, 8)), " ", foreign(commit?.subject ?? ""));
}

/** Shows what the address asks for; where it asks for nothing, or for nothing that there is, the newest commit. */
async function follow(index, commits) {
  const begun = (turn += 1);
  const address = Address.read();
  const prefix = address.get("commit") ?? "";
  const all = index.places.flatMap((place) => place.commits);
  const commit = prefix ? all.find((sha) => sha.startsWith(prefix)) : undefined;
  const series = address.get("series");
  const found = commit === undefined ? null : await find(index, commit, series);
  if (begun !== turn) return;
  const first = index.places.findIndex((place) => place.commits.length);
  fill(form.elements.place, index.places.map((place, number) => [String(number), `${isolated(place.machine)} · ${isolated(place.environment)}`]).filter((_, number) => index.places[number].commits.length), String(found ?? first));
  const wanted = found === null ? {} : { series: series ?? undefined, trace: address.get("trace") };
  const shown = show(index, commits, { commit, ...wanted }, false);
  const asked = turn;
  await shown;
  if (asked !== turn) return;
  if ((prefix || series) && found === null) say("Nothing is recorded of what the address asks for: the newest commit is shown.");
}

async function start() {
  const [index, listed] = await Promise.all([KV.load("rounds-index"), KV.load("commits").catch(() => ({ commits: [] }))]);
  const commits = new Map(listed.commits.map((commit) => [commit.sha, commit]));
  form.addEventListener("change", () => show(index, commits, undefined, true));
  window.addEventListener("hashchange", () => follow(index, commits));
  await follow(index, commits);
}

if (form !== null) start().catch(() => say("The rounds cannot be loaded: is the folder data/ beside this page?"));
