// The rows of a comparison: series loaded as they are needed, compared, sorted, as tables.
"use strict";

/** Sides of different series compared: values with the columns of a series (data.js). Ratios are of times, b / a. */
const Ratios = (() => {
  const FALSE_DISCOVERIES = 0.01; // expected share among the differences of a page (Benjamini and Hochberg, 1995)
  const HALF = 1.96; // of a 95% interval, in standard errors

  /**
   * Returns the ratio and its interval, null where it is unknown, of adjusted times where both have them. Interval: MOVER
   * on logarithms (Zou and Donner, Statistics in Medicine 27, 2008).
   */
  function compare(a, b, sameMachine) {
    const times = (side, adjusted) => (adjusted ? [side.adjusted, side.adjusted_low, side.adjusted_high] : [side.seconds, side.low, side.high]);
    const isKnown = (values) => values.every((value) => typeof value === "number");
    const adjusted = sameMachine && isKnown([...times(a, true), ...times(b, true)]);
    const [[timeA, lowA, highA], [timeB, lowB, highB]] = [times(a, adjusted), times(b, adjusted)];
    const ratio = timeB / timeA;
    if (!isKnown([lowA, highA, lowB, highB])) return { ratio, low: null, high: null, adjusted, word: "undecided" };
    const low = Math.exp(Math.log(ratio) - Math.hypot(Math.log(highA / timeA), Math.log(timeB / lowB)));
    const high = Math.exp(Math.log(ratio) + Math.hypot(Math.log(timeA / lowA), Math.log(highB / timeB)));
    return { ratio, low, high, adjusted, word: "undecided" };
  }

  /** Sets the words of some comparisons: slower or faster where the share of false ones among all is controlled. */
  function decide(changes) {
    const p = ({ ratio, low, high }) => {
      const z = Math.abs(Math.log(ratio)) / (Math.log(high / low) / 2 / HALF);
      return z > 0 ? Math.min(1, (2 * Math.exp(-z * z / 2)) / (z * Math.sqrt(2 * Math.PI))) : 1; // a bound, near where it counts
    };
    const ordered = changes.filter(({ low }) => low !== null).map((change) => ({ change, p: p(change) })).sort((x, y) => x.p - y.p);
    const last = ordered.findLastIndex((test, at) => test.p <= (FALSE_DISCOVERIES * (at + 1)) / ordered.length);
    for (const { change } of ordered.slice(0, last + 1)) change.word = change.ratio > 1 ? "slower" : "faster";
  }

  return { compare, decide };
})();

const Rows = (() => {
  const AT_ONCE = 16; // files loaded at a time
  const WORDS = ["slower", "faster", "unchanged", "undecided"];
  const loaded = new Map(); // name of a series -> its columns

  /** Loads series, some at a time; returns how many failed, or null once `isWanted()` is false. */
  async function load(names, isWanted, progress) {
    const missing = names.filter((name) => !loaded.has(name));
    const left = missing.values();
    let [done, failed] = [0, 0];
    async function work() {
      for (const name of left) { // all workers take from the same iterator
        if (!isWanted()) return;
        try {
          loaded.set(name, await loadSeries(name, true));
        } catch {
          failed += 1;
        }
        KV.forget(name);
        done += 1;
        if (isWanted()) progress(done, missing.length);
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    return isWanted() ? failed : null;
  }

  /** Returns what a series has at a commit, by its index, null for nothing; of several versions the first that has a time. */
  function valueOf(versions, commit) {
    const values = versions.flatMap(({ name }) => {
      const series = loaded.get(name);
      const entry = series ? series.commit.indexOf(commit) : -1;
      if (entry < 0 || series.outcome[entry] === "n/a") return [];
      const times = TIMES.map((time) => [time, series[time][entry]]);
      return [{ series, entry, method: series.method[entry], version: series.version, ...Object.fromEntries(times) }];
    });
    return values.find((value) => value.seconds !== null) ?? values[0] ?? null;
  }

  /**
   * Returns the comparison of two sides: of one series what it did between them, of two series the ratio.
   * @returns {any}
   */
  function compared(a, b, sameMachine) {
    const why = a && b ? Verdicts.lacking(a, b) : "";
    if (why !== null) return { why };
    if (a.series !== b.series) return Ratios.compare(a, b, sameMachine);
    return { ...Verdicts.between(a.series.levels, a.series.seconds, a.entry, b.entry), isOneSeries: true };
  }

  /** Returns the rows of a choice: both sides of each pair of series, and their comparison. */
  function of(chosen, { series, commits, places }) {
    const [sideA, sideB] = ["a", "b"].map((letter) => Choice.sideOf(chosen, letter));
    const [atA, atB] = [sideA, sideB].map(({ commit }) => commits.findIndex(({ sha }) => sha === commit));
    const rows = Choice.pairs(chosen, series).flatMap(([versionsA, versionsB]) => {
      const [a, b] = [valueOf(versionsA, atA), valueOf(versionsB, atB)];
      if (a === null && b === null) return [];
      const names = [...new Set([versionsA[0], versionsB[0]].filter(Boolean).map(({ implementation }) => implementation))].join(" → ");
      const { kernel, device, state, case: test, page = `kernel-${encodeURIComponent(kernel)}-${encodeURIComponent(device)}.html` } = versionsA[0] ?? versionsB[0];
      const place = [device, state].filter(Boolean).join(" · ");
      const change = compared(a, b, sideA.place === sideB.place);
      const { machine, environment } = places[(versionsB[0] ?? versionsA[0]).place];
      const trend = `${page}#${new URLSearchParams({ state, machine, environment, case: test, commit: sideB.commit.slice(0, 8) })}`;
      return [{ kernel, place, test, trend, names, a, b, change, unit: (a ?? b).series.unit ?? "seconds", name: [kernel, device, state, names, test].join(" ") }];
    });
    Ratios.decide(rows.map(({ change }) => change).filter(({ ratio, isOneSeries }) => ratio !== undefined && !isOneSeries));
    return rows;
  }

  const RANKS = { effect: (ratio) => -Math.abs(Math.log(ratio)), slower: (ratio) => -ratio, faster: (ratio) => ratio, name: () => 0 };

  /** Returns rows sorted by a key of RANKS, then by name; rows without a ratio come last. */
  function sorted(rows, order) {
    const rank = ({ change: { ratio } }) => (ratio === undefined && order !== "name" ? Infinity : RANKS[order](ratio));
    const byName = new Intl.Collator("en", { numeric: true }).compare;
    return rows.toSorted((x, y) => (rank(x) === rank(y) ? byName(x.name, y.name) : rank(x) - rank(y)));
  }

  // ---- the tables -----------------------------------------------------------------------------------------------------

  const head = (...parts) => make("th", { scope: "row" }, ...parts);
  const words = (change, unit) => (change.isOneSeries ? Verdicts.words(change, unit)
    : unit === "seconds" ? `${Numbers.significant(1 / change.ratio)}× as fast` : Numbers.change(1 / change.ratio, unit));

  function ratioCell({ change, unit }) {
    if (change.ratio === undefined) return valueCell("", "", change.why ? [span("change", "not comparable"), change.why] : []);
    const { low, high, within } = change;
    const details = change.isOneSeries
      ? [within && `within ${Numbers.share(within)}`, low !== null && `±${Numbers.share((high - low) / 2)}`]
      : [low === null ? "no interval: too few rounds" : `${Numbers.significant(1 / high)} to ${Numbers.significant(1 / low)}×`];
    return valueCell(Verdicts.tone(change, unit), "", [span("change", words(change, unit)), ...details]);
  }

  /** Returns the table row of a test case. */
  function caseRow(row) {
    const side = (value) => resultCell(value?.series, value?.entry, undefined, row.change.adjusted ? [`adjusted: ${Numbers.seconds(value.adjusted)}`] : []);
    return make("tr", {},
      head(make("a", { href: row.trend }, foreign(row.kernel)), span("device", ` ${row.place}`)),
      make("td", { class: "names" }, foreign(row.names), span("detail", foreign(row.test))), ratioCell(row), side(row.a), side(row.b));
  }

  const counts = (rows) => WORDS.map((word) => rows.filter(({ change }) => change.word === word).length);

  /** Returns the geometric mean of rows as a comparison. */
  function meanOf(rows) {
    const ratio = Math.exp(rows.reduce((sum, { change }) => sum + Math.log(change.ratio), 0) / rows.length);
    return { ...rows[0].change, ratio, word: ratio > 1 ? "slower" : ratio < 1 ? "faster" : "unchanged" };
  }

  /** Returns a row for each kernel, and one for all of them. */
  function meanRows(rows) {
    const nameOf = ({ kernel, place }) => `${kernel} ${place}`;
    const groups = [...new Set(rows.map(nameOf))].sort().map((name) => [name, rows.filter((row) => nameOf(row) === name)]);
    const times = rows.filter(({ unit }) => unit === "seconds");
    if (groups.length > 1 && times.length) groups.push([times.length < rows.length ? "all times" : "all", times]);
    return groups.map(([name, members]) => make("tr", {}, head(foreign(name)), valueCell("", "", [span("change", words(meanOf(members), members[0].unit))]),
      ...[members.length, ...counts(members)].map((number) => valueCell("", String(number)))));
  }

  /** Returns the result in one sentence, and its tone; `known` are the rows that have a ratio. */
  function sentence(known, all) {
    if (all.length === 0) return ["Neither side has a value here, or A and B are the same."];
    if (known.length === 0) return ["No test case can be compared: none has times of both sides."];
    const times = known.filter(({ unit }) => unit === "seconds");
    const numbers = counts(known).map((number, at) => number && `${number} ${WORDS[at]}`).filter(Boolean).join(", ");
    const cases = (rows) => `${rows.length} ${rows.length === 1 ? "test case" : "test cases"}`;
    if (times.length === 0) return [`${cases(known)} compared: ${numbers}.`];
    const { ratio, isOneSeries, word } = meanOf(times);
    const result = ratio === 1 ? "as fast as A" : isOneSeries ? `${Numbers.change(1 / ratio)} than A` : `${Numbers.significant(1 / ratio)}× as fast as A`;
    return [`B is ${result} in the geometric mean of ${cases(times)}: ${numbers}.`, times.some(({ change }) => change.word === word) ? word : ""];
  }

  return { RANKS, load, of, sorted, caseRow, meanRows, sentence };
})();
