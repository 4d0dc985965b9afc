// compare.html and commits' pages: two sides, each a commit that a machine measured, and the test cases of both. The form
// has the choice: of an implementation nothing is each, and on side B nothing is what side A has. The address has what the
// form says. A commit's page begins with that commit as B.
"use strict";

const MOST_CAUSES = 3; // named in a row
const SHORTEST = 4, DIGITS = 12; // of a hash that is understood, and of one in a link
const MOST_ROWS = 300; // at once
const AT_ONCE = 32; // files loaded together
const SIDES = ["a", "b"];
const WORDS = ["slower", "faster", "higher", "lower", "unchanged", "undecided"];

const page = Object.fromEntries(["choice", "progress", "problems", "result", "summary", "means", "rows", "notes", "none", "more"].map((id) => [id, document.getElementById(id)]));
const fields = page.choice.elements;
const loaded = new Map(); // name of a series -> its columns
/** @type {any} */
const data = { commits: [], places: [], series: [] };
let request = 0; // the number of the latest one
let wasOther = false; // whether B was of another machine or implementation than A

const kernelName = (series) => `${series.kernel} ${series.device}`.trim();

// ---- the choice -----------------------------------------------------------------------------------------------------

/** Returns a side of the choice. */
function sideOf(letter) {
  const value = (part) => fields[letter + part].value || fields[`a${part}`].value;
  return { commit: value(""), place: Number(value("p")), implementation: value("i") };
}

/** Returns whether B is of another machine or implementation than A. */
function isOther() {
  const [a, b] = SIDES.map(sideOf);
  return a.place !== b.place || a.implementation !== b.implementation;
}

/** Returns the newest commit that a place measured, of those before `sha`; "" where there is none. */
function newestAt(place, sha = "") {
  const end = data.commits.findIndex((commit) => commit.sha === sha);
  const isMeasured = (commit, at) => (end < 0 || at < end) && commit.places.includes(place);
  return data.commits.findLast(isMeasured)?.sha ?? "";
}

/** Returns the SHA of the commit that a text names, a tag or the beginning of a hash. */
function resolve(text) {
  const named = data.commits.filter(({ sha, tags }) => tags.includes(text) || (text.length >= SHORTEST && sha.startsWith(text.toLowerCase())));
  return named.length === 1 ? named[0].sha : undefined;
}

/**
 * Sets the form as the address says. The default is the page's commit, or the newest one, against the one before it, of
 * those that the place measured; the default place is the first that measured it. Returns what the page lacks.
 */
function takeAddress() {
  const query = Address.read();
  const gone = /** @type {[string, any][]} */ ([]);
  const take = (name, kind) => { if (!offer(fields[name], query.get(name) ?? "") && query.has(name)) gone.push([kind, query.get(name)]); };
  take("kernel", "kernel");
  fields.text.value = query.get("text") ?? "";
  const ofPage = page.choice.dataset.commit ?? "";
  const place = data.commits.findLast(({ sha, places }) => places.length > 0 && (!ofPage || sha === ofPage))?.places[0] ?? 0;
  const commits = SIDES.map((letter) => {
    const sha = query.has(letter) ? resolve(query.get(letter)) : "";
    if (sha === undefined) gone.push(["commit", query.get(letter)]);
    const wanted = Object.entries({ machine: query.get(`${letter}m`), environment: query.get(`${letter}e`) }).filter(([, name]) => name !== null);
    const isOf = (names) => (other) => names.every(([kind, name]) => other[kind] === name);
    // another environment of the same machine comes before another machine
    const at = wanted.length ? [wanted, wanted.slice(0, 1)].map((names) => data.places.findIndex(isOf(names))).find((index) => index >= 0) : undefined;
    fields[`${letter}p`].value = String(at ?? (letter === "a" ? place : ""));
    gone.push(...wanted.filter(([kind, name]) => data.places[fields[`${letter}p`].value]?.[kind] !== name));
    take(`${letter}i`, "implementation");
    return sha;
  });
  wasOther = isOther();
  fields.b.value = commits[1] || (wasOther && commits[0]) || ofPage || newestAt(sideOf("b").place) || data.commits.at(-1).sha;
  fields.a.value = commits[0] || (wasOther ? fields.b.value : newestAt(sideOf("b").place, fields.b.value));
  return gone.length ? [Address.missed(gone)] : [];
}

/** Puts the choice into the address, without what is the default; `isStep` adds an entry to the history. */
function putAddress(isStep) {
  const chosen = ["kernel", "text"].map((name) => [name, fields[name].value]);
  const sides = SIDES.flatMap((letter) => {
    const { machine, environment } = data.places[fields[`${letter}p`].value] ?? {};
    return Object.entries({ "": fields[letter].value.slice(0, DIGITS), m: machine, e: environment, i: fields[`${letter}i`].value }).map(([part, value]) => [letter + part, value]);
  });
  Address.write(new URLSearchParams([...chosen, ...sides].filter(([, value]) => value)), isStep);
}

/** Returns the pairs of series that the choice asks for, as lists of versions; empty for a missing counterpart. */
function pairs() {
  const sides = SIDES.map(sideOf);
  const isEach = fields.bi.value === "";
  const groups = new Map(); // what both sides have in common -> of each side, implementation -> versions
  for (const series of data.series.filter((item) => ["", kernelName(item)].includes(fields.kernel.value))) {
    const key = JSON.stringify([series.benchmark, series.case, isEach && series.implementation]);
    sides.forEach(({ place, implementation }, side) => {
      if (series.place !== place || !["", series.implementation].includes(implementation)) return;
      if (!groups.has(key)) groups.set(key, [{}, {}]);
      (groups.get(key)[side][series.implementation] ??= []).push(series);
    });
  }
  const all = [...groups.values()].flatMap((group) => {
    const [a, b] = group.map((of) => (Object.keys(of).length ? Object.values(of) : [[]]));
    return a.flatMap((versionsA) => b.map((versionsB) => [versionsA, versionsB]));
  });
  // nothing against itself
  return sides[0].commit === sides[1].commit ? all.filter(([a, b]) => a[0]?.name !== b[0]?.name) : all;
}

// ---- two sides compared: of one series the verdict of its levels, of two the ratio of their times, b / a -----------------

const Ratios = {
  FALSE_DISCOVERIES: 0.01, // expected share among the differences of a page (Benjamini and Hochberg, 1995)
  HALF: 1.96, // of a 95% interval, in standard errors

  /**
   * Returns the ratio and its interval, null where it is unknown, of adjusted times where both have them. Interval: MOVER
   * on logarithms (Zou and Donner, Statistics in Medicine 27, 2008). A side has the columns of a series (data.js).
   */
  compare(a, b, sameMachine) {
    const times = (side, adjusted) => (adjusted ? [side.adjusted, side.adjusted_low, side.adjusted_high] : [side.seconds, side.low, side.high]);
    const isKnown = (values) => values.every((value) => typeof value === "number");
    const adjusted = sameMachine && isKnown([...times(a, true), ...times(b, true)]);
    const [[timeA, lowA, highA], [timeB, lowB, highB]] = [times(a, adjusted), times(b, adjusted)];
    const ratio = timeB / timeA;
    if (!isKnown([lowA, highA, lowB, highB])) return { ratio, low: null, high: null, adjusted, word: "undecided" };
    const low = Math.exp(Math.log(ratio) - Math.hypot(Math.log(highA / timeA), Math.log(timeB / lowB)));
    const high = Math.exp(Math.log(ratio) + Math.hypot(Math.log(timeA / lowA), Math.log(highB / timeB)));
    return { ratio, low, high, adjusted, word: "undecided" };
  },

  /** Sets the words of the comparisons of some rows: slower or faster where the share of false ones among all is controlled. */
  decide(rows) {
    const p = ({ ratio, low, high }) => {
      const z = Math.abs(Math.log(ratio)) / (Math.log(high / low) / 2 / Ratios.HALF);
      return z > 0 ? Math.min(1, (2 * Math.exp(-z * z / 2)) / (z * Math.sqrt(2 * Math.PI))) : 1; // a bound, near where it counts
    };
    const ordered = rows.filter(({ change }) => change.low !== null).map((row) => ({ ...row, p: p(row.change) })).sort((x, y) => x.p - y.p);
    const last = ordered.findLastIndex((test, at) => test.p <= (Ratios.FALSE_DISCOVERIES * (at + 1)) / ordered.length);
    for (const { change, better } of ordered.slice(0, last + 1)) change.word = Verdicts.wordOf(Math.log(change.ratio), better);
  },
};

/** Loads series, some at a time; returns how many failed, or null once something else was chosen. */
async function loadAll(names, mine) {
  const missing = names.filter((name) => !loaded.has(name));
  let failed = 0;
  for (let at = 0; at < missing.length; at += AT_ONCE) {
    page.progress.textContent = `${at} of ${missing.length} series loaded`;
    await Promise.all(missing.slice(at, at + AT_ONCE).map(async (name) => {
      await loadSeries(name, true).then((series) => loaded.set(name, series), () => { failed += 1; });
      KV.forget(name);
    }));
    if (request !== mine) return null;
  }
  return failed;
}

/** Returns what a series has at a commit, by its index, null for nothing; of several versions the first that has a time. */
function valueOf(versions, commit) {
  const values = versions.flatMap(({ name }) => {
    const series = loaded.get(name);
    const entry = series ? series.commit.indexOf(commit) : -1;
    if (entry < 0 || series.outcome[entry] === "n/a") return [];
    const times = TIMES.map((time) => [time, series[time][entry]]);
    return [{ name, sha: data.commits[commit].sha, series, entry, method: series.method[entry], version: series.version, ...Object.fromEntries(times) }];
  });
  return values.find((value) => value.seconds !== null) ?? values[0] ?? null;
}

/** @returns {any} */
function compared(a, b, sameMachine) {
  const why = a && b ? Verdicts.lacking(a, b) : "";
  if (why !== null) return { why };
  if (a.series !== b.series) return Math.min(a.seconds, b.seconds) > 0 ? Ratios.compare(a, b, sameMachine) : { why: "" };
  return { ...Verdicts.between(a.series.levels, a.series.seconds, a.entry, b.entry), isOneSeries: true };
}

/** Returns the rows of the choice: both sides of each pair of series, and their comparison. */
function rowsOf() {
  const [sideA, sideB] = SIDES.map(sideOf);
  const [atA, atB] = [sideA, sideB].map(({ commit }) => data.commits.findIndex(({ sha }) => sha === commit));
  const rows = pairs().flatMap(([versionsA, versionsB]) => {
    const [a, b] = [valueOf(versionsA, atA), valueOf(versionsB, atB)];
    if (a === null && b === null) return [];
    const names = [...new Set([versionsA[0], versionsB[0]].filter(Boolean).map(({ implementation }) => implementation))].join(" → ");
    const { kernel, device, state, case: test, page: own } = versionsA[0] ?? versionsB[0];
    const { machine, environment } = data.places[(versionsB[0] ?? versionsA[0]).place];
    const trend = `${own ?? `kernel-${encodeURIComponent(kernel)}-${encodeURIComponent(device)}.html`}#${
      new URLSearchParams({ state, machine, environment, case: test, commit: sideB.commit.slice(0, 8) })}`;
    return [{
      kernel, place: [device, state].filter(Boolean).join(" · "), test, trend, names, a, b, change: compared(a, b, sideA.place === sideB.place),
      unit: (a ?? b).series.unit ?? "seconds", better: (a ?? b).series.levels.better, name: [kernel, device, state, names, test].join(" "),
    }];
  });
  Ratios.decide(rows.filter(({ change: { ratio, isOneSeries } }) => ratio !== undefined && !isOneSeries));
  return rows;
}

/** Returns rows sorted by their effect, the largest first, then by name; rows without a ratio come last. */
function sorted(rows) {
  const rank = ({ change: { ratio } }) => (ratio === undefined ? Infinity : ratio === null ? -Infinity : -Math.abs(Math.log(ratio)));
  const byName = new Intl.Collator("en", { numeric: true }).compare;
  return rows.toSorted((x, y) => (rank(x) === rank(y) ? byName(x.name, y.name) : rank(x) - rank(y)));
}

// ---- the tables -----------------------------------------------------------------------------------------------------

const head = (...parts) => make("th", { scope: "row" }, ...parts);
const asFast = (ratio) => `${Numbers.significant(1 / ratio)}× as fast`;
const words = (change, unit) => (change.isOneSeries ? Verdicts.words(change, unit)
  : unit === "seconds" ? asFast(change.ratio) : Numbers.change(1 / change.ratio, unit));

/** Returns the possible causes of changes in words. */
function causesIn(causes) {
  const words = causes.slice(0, MOST_CAUSES).map(([good, bad, commits]) => {
    const [first, from, to] = [commits[0] ?? "", good, bad].map((sha) => sha.slice(0, 8));
    return commits.length === 1 ? first : `one of ${Numbers.count(commits.length)} commits, ${from}..${to}`;
  });
  return words.length ? `by ${[...words, ...(causes.length > MOST_CAUSES ? [`${causes.length - MOST_CAUSES} more`] : [])].join("; ")}` : "";
}

function ratioCell({ change, unit }) {
  if (change.ratio === undefined) return valueCell("", "", change.why ? [span("change", "not comparable"), change.why] : []);
  const { ratio, low, high, within } = change;
  const half = (high - low) / 2 / (Numbers.isMultiple(1 / ratio, unit) ? ratio : 1); // of a multiple, a share
  const details = change.isOneSeries
    ? [change.ends && { slower: "worse", faster: "better" }[change.word], within && `within ${Numbers.share(within)}`, low !== null && `±${Numbers.share(half)}`, causesIn(change.causes ?? [])]
    : [low === null ? "no interval: too few rounds" : `${Numbers.significant(1 / high)} to ${Numbers.significant(1 / low)}×`];
  return valueCell(Verdicts.tone(change), "", [span("change", words(change, unit)), ...details]);
}

// The footnotes of the rows, in order of first use: remark without its counts of rounds -> such remarks
const notes = new Map();
const ROUNDS = /\d+(?= of \d+ rounds)|(?<= of )\d+(?= rounds)|(?<= rounds, have )\d+/g; // as in site/text.py

/** Returns the number of a remark among the footnotes. */
function noteOf(remark) {
  const kind = remark.replace(ROUNDS, "\0");
  notes.set(kind, [...(notes.get(kind) ?? []), remark]);
  return [...notes.keys()].indexOf(kind) + 1;
}

/** Returns remarks that differ in counts of rounds as one with ranges: "contended in 3 to 5 of 8 rounds". */
function mergedNote(remarks) {
  const counts = remarks.map((remark) => (remark.match(ROUNDS) ?? []).map(Number));
  let column = 0;
  return remarks[0].replace(ROUNDS, () => {
    const [low, high] = [Math.min, Math.max].map((end) => end(...counts.map((row) => row[column])));
    column += 1;
    return low === high ? String(low) : `${low} to ${high}`;
  });
}

/** Returns the cell of a side: its rate with interval and time, its time where the FLOPs are unknown. It links to its rounds. */
function sideCell(value, isAdjusted) {
  if (value === null) return valueCell("absent", "–");
  const { series: { flop, operation, unit, outcome: { [value.entry]: outcome }, remarks: { [value.entry]: remarks } }, seconds, low, high, adjusted } = value;
  const numbers = [...new Set((remarks ?? []).map(noteOf))].sort((x, y) => x - y);
  const marks = numbers.length > 0 && make("sup", { class: "marks" }, numbers.join(", "));
  if (outcome !== "measured") return valueCell(outcome, outcome, [marks]);
  const [time, rateUnit, rate] = [Numbers.inUnit(seconds, unit), `G${operation}S`, (of) => flop / of / 1e9];
  const interval = low === null || high === null ? "" : flop === null
    ? `${Numbers.inUnit(low, unit)} to ${Numbers.inUnit(high, unit)}` : Numbers.interval(rate(high), rate(low), rateUnit);
  const text = flop === null ? time : Numbers.value(rate(seconds), rateUnit);
  // another suite's values have no rounds
  return valueCell("", unit === undefined ? make("a", { href: `measurement.html#commit=${value.sha}&series=${value.name}` }, text) : text,
    [marks, [interval, flop !== null && time].filter(Boolean).join(" · "), isAdjusted && `adjusted: ${Numbers.seconds(adjusted)}`]);
}

/** Returns the table row of a test case. */
function caseRow(row) {
  return make("tr", {},
    head(make("a", { href: row.trend }, foreign(row.kernel), " ", foreign(row.test)), make("br", {}), span("names", row.place && (row.names ? `${row.place} · ` : row.place), foreign(row.names))),
    ratioCell(row), ...[row.a, row.b].map((value) => sideCell(value, row.change.adjusted)));
}

const counts = (rows, of = WORDS) => of.map((word) => rows.filter(({ change }) => change.word === word).length);

/** Returns the geometric mean of rows as a comparison: of those that have a ratio. */
function meanOf(all) {
  const rows = all.filter(({ change: { ratio } }) => ratio !== null);
  if (rows.length === 0) return { isOneSeries: true, word: "–" };
  const ratio = Math.exp(rows.reduce((sum, { change }) => sum + Math.log(change.ratio), 0) / rows.length);
  return { ...rows[0].change, ratio, word: ratio === 1 ? "unchanged" : Verdicts.wordOf(Math.log(ratio), rows[0].better) };
}

/** Returns a row for each kernel, and one for all of them. */
function meanRows(rows) {
  const nameOf = ({ kernel, place }) => `${kernel} ${place}`;
  const heads = Array.from(page.means.querySelectorAll("thead th"), (cell) => cell.textContent);
  const listed = WORDS.filter((word) => heads.includes(word));
  const groups = [...new Set(rows.map(nameOf))].sort().map((name) => [name, rows.filter((row) => nameOf(row) === name)]);
  const times = rows.filter(({ unit, change: { ratio } }) => unit === "seconds" && ratio !== null);
  if (groups.length > 1 && times.length) groups.push([times.length < rows.length ? "all times" : "all", times]);
  return groups.map(([name, members]) => make("tr", {}, head(foreign(name)), valueCell("", "", [span("change", words(meanOf(members), members[0].unit))]),
    ...[members.length, ...counts(members, listed)].map((number) => make("td", {}, String(number)))));
}

/** Returns the result in one sentence, and its tone; `known` are the rows that have a ratio. */
function sentence(known, all) {
  if (all.length === 0) return ["Neither side has a value here, or A and B are the same."];
  if (known.length === 0) return ["No test case can be compared: none has times of both sides."];
  const times = known.filter(({ unit, change: { ratio } }) => unit === "seconds" && ratio !== null);
  const numbers = counts(known).map((number, at) => number && `${number} ${WORDS[at]}`).filter(Boolean).join(", ");
  const cases = (rows) => `${rows.length} ${rows.length === 1 ? "test case" : "test cases"}`;
  if (times.length === 0) return [`${cases(known)} compared: ${numbers}.`];
  const { ratio, isOneSeries, word } = meanOf(times);
  const result = ratio === 1 ? "as fast as A" : isOneSeries ? `${Numbers.change(1 / ratio)} than A` : `${asFast(ratio)} as A`;
  const others = times.length < known.length ? `; of all ${known.length}` : "";
  return [`B is ${result} in the geometric mean of ${cases(times)}${others}: ${numbers}.`, times.some(({ change }) => change.word === word) ? word : ""];
}

// ---- the page -------------------------------------------------------------------------------------------------------

function drawResult() {
  const wanted = fields.text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ name, change }) => wanted.every((word) => `${name} ${change.word ?? ""}`.toLowerCase().includes(word));
  const rows = sorted(rowsOf().filter(fits));
  const known = rows.filter((row) => row.change.ratio !== undefined);
  notes.clear();
  page.rows.querySelector("tbody").replaceChildren(...rows.slice(0, MOST_ROWS).map(caseRow));
  page.notes.replaceChildren(...[...notes.values()].map((remarks) => make("li", {}, foreign(mergedNote(remarks)))));
  page.means.querySelector("tbody").replaceChildren(...meanRows(known));
  page.means.hidden = known.length === 0;
  const [result, tone = ""] = sentence(known, rows);
  page.summary.textContent = result;
  page.summary.className = `verdict ${tone}`;
  page.none.hidden = rows.length > 0;
  page.more.hidden = rows.length <= MOST_ROWS;
  page.more.textContent = `The ${MOST_ROWS} largest of ${rows.length} effects. Choose a kernel or type a name to see others.`;
  page.result.hidden = false;
}

function tell(problems) {
  page.problems.replaceChildren(...problems.map((text) => make("li", {}, text)));
  page.problems.hidden = problems.length === 0;
}

/** Shows what the form says: loads it, and draws it. `isStep` adds an entry to the history. */
async function show(problems, isStep) {
  const mine = request += 1;
  // a commit's page as it is has the address that others link to
  if (isStep || window.location.hash || !page.choice.dataset.commit) putAddress(isStep);
  for (const letter of SIDES) {
    const { commit, place } = sideOf(letter);
    data.commits.forEach(({ places }, at) => { fields[letter].options[data.commits.length - 1 - at].disabled = !places.includes(place); });
    page.choice.querySelector(`[data-side=${letter}] .chosen`).replaceChildren(...(commit ? commitHead(data.commits.find(({ sha }) => sha === commit)) : ["no earlier commit was measured"]));
  }
  tell(problems);
  document.body.dataset.ready = "no";
  const failed = await loadAll([...new Set(pairs().flat(2).map(({ name }) => name))], mine);
  if (failed === null) return; // something else was chosen meanwhile
  page.progress.textContent = "";
  if (failed > 0) tell([...problems, `${failed} series could not be loaded: their files in data/ are missing or damaged.`]);
  drawResult();
  document.body.dataset.ready = "yes";
}

/** Follows the form. With another machine or implementation, it is the same commit that is compared, until the reader says otherwise. */
function follow({ target }) {
  if (target === fields.text) return;
  if (isOther() !== wasOther) {
    wasOther = !wasOther;
    fields.a.value = wasOther ? fields.b.value : newestAt(sideOf("b").place, fields.b.value);
  }
  show([], true);
}

function fillForm() {
  const same = (texts) => texts.map((text) => [text, text]);
  const places = data.places.map(({ machine, environment }, index) => [String(index), `${isolated(machine)} · ${isolated(environment)}`]);
  const names = same([...new Set(data.series.map((item) => item.implementation).filter(Boolean))].sort());
  fill(fields.kernel, [["", "all"], ...same([...new Set(data.series.map(kernelName))].sort())]);
  for (const letter of SIDES) {
    fill(fields[letter], data.commits.map(({ sha, subject, tags }) => [sha, [sha.slice(0, 8), ...[...tags, subject.slice(0, 64)].map(isolated)].join(" ")]).reverse());
    fill(fields[`${letter}p`], letter === "a" ? places : [["", "the same as A"], ...places]);
    fill(fields[`${letter}i`], [["", letter === "a" ? "each" : "the same as A"], ...names]);
    fields[`${letter}p`].closest("label").hidden = places.length < 2;
    fields[`${letter}i`].closest("label").hidden = names.length === 0; // another suite
  }
}

async function startComparing() {
  try {
    const [{ commits }, { places, series }] = await Promise.all([KV.load("commits"), KV.load("series-index")]);
    Object.assign(data, { commits, places, series });
  } catch (error) {
    return tell([`${messageOf(error)}: write the site again (kv report).`]);
  }
  if (data.commits.length === 0) return tell(["No commit of the first-parent line was measured, so there is nothing to compare."]);
  data.series.sort((a, b) => b.version.localeCompare(a.version, "en", { numeric: true })); // newest first
  fillForm();
  page.choice.hidden = false;
  page.choice.addEventListener("change", follow);
  fields.text.addEventListener("input", () => { putAddress(false); drawResult(); });
  page.choice.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", () => show(takeAddress(), false));
  show(takeAddress(), false);
}

startComparing();
