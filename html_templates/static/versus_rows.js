// The rows of a comparison: series loaded as they are needed, compared, sorted, as tables and as CSV.
"use strict";

const Rows = (() => {
  const AT_ONCE = 16; // files loaded at a time
  const loaded = new Map(); // name of a series -> its columns, typed so that thousands of series fit

  /** Returns the columns that a comparison needs of a series; `places`: the commit of each entry, an index by `order`. */
  function compact(data, order) {
    const times = TIMES.map((name) => [name, Float64Array.from(data[name] ?? [], (value) => value ?? NaN)]);
    const { rounds, method, outcome, remarks, flop, operation, version, unit, levels, seconds } = data;
    return {
      commits: Int32Array.from(data.commit, (sha) => order.get(sha) ?? -1), times,
      rounds, method, outcome, remarks, flop, operation, version, unit, levels, seconds,
    };
  }

  /** Loads series, some at a time; returns how many failed, or null once `isWanted()` is false. */
  async function load(names, order, isWanted, progress) {
    const missing = names.filter((name) => !loaded.has(name));
    const left = missing.values();
    let [done, failed] = [0, 0];
    async function work() {
      for (const name of left) { // all workers take from the same iterator
        if (!isWanted()) return;
        try {
          loaded.set(name, compact(await loadSeries(name), order));
        } catch {
          failed += 1;
        }
        KV.forget(name);
        done += 1;
        if (isWanted()) progress(done, missing.length);
      }
    }
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, missing.length) }, work));
    return isWanted() ? failed : null;
  }

  /** Returns a side: what a series has at a commit, null for nothing; of several versions the first that has a time. */
  function valueOf(versions, commit) {
    const values = (versions ?? []).flatMap(({ name }) => {
      const columns = loaded.get(name);
      const entry = columns ? columns.commits.indexOf(commit) : -1;
      if (entry < 0) return [];
      const times = columns.times.map(([time, column]) => [time, Number.isNaN(column[entry] ?? NaN) ? null : column[entry]]);
      const { flop, operation, version, unit } = columns;
      return [{
        ...Object.fromEntries(times), flop, operation, version, unit,
        rounds: columns.rounds[entry], method: columns.method[entry], outcome: columns.outcome[entry],
        remarks: columns.remarks[String(entry)] ?? [], columns, entry,
      }];
    });
    return values.find((value) => value.seconds !== null) ?? values[0] ?? null;
  }

  const isEmpty = (value) => value === null || value.outcome === "n/a";

  /** Returns the comparison of two sides: of one series what it did between them, of two series the ratio. */
  function compared(a, b, sameMachine) {
    const why = a && b ? Ratios.lacking(a, b) : "";
    if (why !== null) return { why };
    if (a.columns !== b.columns) return Ratios.compare(a, b, sameMachine);
    return { ...verdictOf(a.columns.levels, a.columns.seconds, a.entry, b.entry), unit: b.unit, isOneSeries: true };
  }

  /** Returns the rows of a choice: both sides of each pair of series, and their comparison. */
  function of(chosen, pairs, order) {
    const sameMachine = chosen.a.place === chosen.b.place;
    const rows = pairs.flatMap(([versionsA, versionsB]) => {
      const a = valueOf(versionsA, order.get(chosen.a.commit));
      const b = valueOf(versionsB, order.get(chosen.b.commit));
      if (isEmpty(a) && isEmpty(b)) return [];
      const { kernel, device, state, case: test, page } = (versionsA ?? versionsB)[0];
      const [nameA, nameB] = [versionsA, versionsB].map((versions) => versions?.[0].implementation ?? null);
      return [{ kernel, device, state, test, page, nameA, nameB, a, b, change: compared(a, b, sameMachine) }];
    });
    Ratios.decide(rows.map(({ change }) => change).filter(({ ratio, isOneSeries }) => ratio !== undefined && !isOneSeries));
    return rows;
  }

  const implementation = (row) => [...new Set([row.nameA, row.nameB].filter((name) => name !== null))].join(" → ");
  const name = (row) => [row.kernel, row.device, row.state, implementation(row), row.test].join(" ");

  const RANKS = { effect: (ratio) => -Math.abs(Math.log(ratio)), slower: (ratio) => -ratio, faster: (ratio) => ratio, name: () => 0 };

  /** Returns rows sorted by a key of RANKS, then by name; rows without a ratio come last. */
  function sorted(rows, order) {
    const rank = ({ change: { ratio } }) => (ratio === undefined && order !== "name" ? Infinity : RANKS[order](ratio));
    const keyed = rows.map((row) => ({ row, rank: rank(row), name: name(row) }));
    const byName = new Intl.Collator("en", { numeric: true }).compare;
    keyed.sort((a, b) => (a.rank === b.rank ? byName(a.name, b.name) : a.rank - b.rank));
    return keyed.map(({ row }) => row);
  }

  // ---- CSV (RFC 4180): times in s ------------------------------------------------------------------------------------

  const SIDE = ["commit", "machine", "environment", "implementation", "seconds", "seconds_low", "seconds_high", "seconds_adjusted", "gflops", "rounds", "outcome"];
  const HEADS = [
    "kernel", "device", "state", "case", ...["a", "b"].flatMap((letter) => SIDE.map((head) => `${head}_${letter}`)),
    "time_ratio", "ratio_low", "ratio_high", "verdict", "adjusted", "unit",
  ];

  /** Returns a field; a text that a spreadsheet would run as a formula gets an apostrophe before it. */
  function field(value) {
    if (typeof value !== "string") return String(value ?? "");
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  /** Returns rows as CSV, in their order. */
  function csv(rows, { a, b }, places) {
    const side = ({ commit, place }, implementationName, value) => [
      commit, places[place].machine, places[place].environment, implementationName,
      value?.seconds, value?.low, value?.high, value?.adjusted,
      value && value.flop !== null && value.seconds !== null ? value.flop / value.seconds / 1e9 : null, value?.rounds, value?.outcome,
    ];
    const lines = rows.map((row) => [
      row.kernel, row.device, row.state, row.test, ...side(a, row.nameA, row.a), ...side(b, row.nameB, row.b),
      ...["ratio", "low", "high", "word", "adjusted"].map((key) => row.change[key]), (row.a ?? row.b).unit ?? "seconds",
    ]);
    return [HEADS, ...lines].map((line) => `${line.map(field).join(",")}\r\n`).join("");
  }

  // ---- the tables -----------------------------------------------------------------------------------------------------

  const ADJUSTED = "adjusted: corrected for how busy the machine was in the very same rounds; what is compared";
  const head = (...parts) => make("th", { scope: "row" }, ...parts);

  /** Returns the numbers of footnotes, and adds new ones to `notes`: what they say, without a number of rounds -> those numbers. */
  function marks(texts, notes) {
    const numbers = texts.map((text) => {
      const [, what, count, whole] = /^(\w+ in )(\d+)( of \d+ rounds)$/.exec(text) ?? []; // which many rows share
      const key = what === undefined ? text : `${what}\0${whole}`;
      if (!notes.has(key)) notes.set(key, []);
      notes.get(key).push(Number(count));
      return [...notes.keys()].indexOf(key) + 1;
    });
    return [...new Set(numbers)].sort((a, b) => a - b);
  }

  /** Returns the texts of footnotes. */
  function footnotes(notes) {
    return Array.from(notes, ([key, counts]) => {
      const [least, most] = [Math.min(...counts), Math.max(...counts)];
      return key.replace("\0", least === most ? String(least) : `${least} to ${most}`);
    });
  }

  /** Returns the cell of a side; `adjusted`: the adjusted time as it was compared, and the measured one below. */
  function sideCell(value, unit, notes, adjusted) {
    if (value === null) return valueCell("absent", [span("text", "–")]);
    if (value.seconds === null) return valueCell(value.outcome, [span("text", value.outcome)], marks(value.remarks, notes));
    const isRate = unit === "GFLOPS" && value.flop !== null;
    const isPlain = value.unit !== undefined; // of another suite
    const inUnit = (seconds) => (isRate ? value.flop / seconds / 1e9 : 1e6 * seconds);
    const text = (seconds) => isPlain ? Numbers.inUnit(seconds, value.unit) : `${Numbers.significant(inUnit(seconds))} ${isRate ? Numbers.rateUnit(value.operation) : "µs"}`;
    const [seconds, ...ends] = Ratios.times(value, adjusted);
    const interval = ends.includes(null) ? "" : isPlain ? ends.map(text).join(" to ") : ends.map(inUnit).sort((a, b) => a - b).map(Numbers.significant).join(" to ");
    const notable = adjusted ? [ADJUSTED, ...value.remarks] : value.remarks;
    return valueCell("", [span("text", text(seconds))], marks(notable, notes), [interval, adjusted && `measured: ${text(value.seconds)}`]);
  }

  function ratioCell(change, notes) {
    if (change.ratio === undefined) return change.why ? valueCell("", [span("change", "not comparable")], marks([change.why], notes)) : valueCell("", []);
    const remarks = change.adjusted ? [ADJUSTED] : [];
    const isChange = ["slower", "faster"].includes(change.word);
    const interval = change.isOneSeries
      ? [change.within && `within ${Numbers.share(change.within)}`, isChange && `±${Numbers.share((change.high - change.low) / 2)}`]
      : [change.low === null ? "no interval: too few rounds" : `${Numbers.significant(1 / change.high)} to ${Numbers.significant(1 / change.low)}×`];
    return valueCell(Ratios.tone(change), [span("change", Ratios.words(change))], marks(remarks, notes), interval);
  }

  const deviceAndState = ({ device, state }) => [device, state].filter(Boolean).join(" · ");

  /** Returns the table row of a test case, and adds its footnotes to `notes`. */
  function caseRow(row, unit, notes) {
    const href = row.page ?? `kernel-${encodeURIComponent(row.kernel)}-${encodeURIComponent(row.device)}.html`;
    return make("tr", {},
      head(make("a", { href }, foreign(row.kernel)), span("device", ` ${deviceAndState(row)}`)),
      make("td", { class: "names" }, foreign(implementation(row)), span("detail", foreign(row.test))),
      ratioCell(row.change, notes), ...[row.a, row.b].map((value) => sideCell(value, unit, notes, Boolean(row.change.adjusted))));
  }

  const isTime = ({ change }) => (change.unit ?? "seconds") === "seconds";
  const meanOf = (rows) => Ratios.mean(rows.map((row) => row.change.ratio));
  const WORDS = ["slower", "faster", "unchanged", "undecided"];
  const counts = (rows) => WORDS.map((word) => rows.filter(({ change }) => change.word === word).length);

  /** Returns a row for each kernel, and one for all of them. */
  function meanRows(rows) {
    const groups = new Map();
    for (const row of rows) {
      const name = `${row.kernel} ${deviceAndState(row)}`;
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(row);
    }
    const entries = [...groups].sort(([a], [b]) => a.localeCompare(b, "en")).map((entry) => [...entry, ""]);
    const times = rows.filter(isTime);
    if (entries.length > 1 && times.length) entries.push([times.length < rows.length ? "all times" : "all", times, "whole"]);
    return entries.map(([name, members, className]) => {
      const mean = meanOf(members);
      return make("tr", { class: className }, head(foreign(name)), valueCell("", [span("change", Ratios.words({ ...members[0].change, ratio: mean, word: mean > 1 ? "slower" : mean < 1 ? "faster" : "unchanged" }))]),
        ...[members.length, ...counts(members)].map((number) => valueCell("", [String(number)])));
    });
  }

  /** Returns the result in one sentence; `known` are the rows that have a ratio. */
  function sentence(known, all, isSame) {
    if (isSame) return "A and B are the same: choose another one.";
    if (all.length === 0) return "Neither side has a value here.";
    if (known.length === 0) return "No test case can be compared: none has times of both sides.";
    const times = known.filter(isTime);
    const mean = meanOf(times);
    const numbers = counts(known).map((number, at) => number && `${number} ${WORDS[at]}`).filter(Boolean).join(", ");
    if (mean === null) return `${known.length} ${known.length === 1 ? "test case" : "test cases"} compared: ${numbers}.`;
    const { isOneSeries } = times[0].change;
    const result = mean === 1 ? "B is as fast as A" : isOneSeries ? `B is ${Numbers.change(1 / mean)} than A` : `B is ${Numbers.significant(1 / mean)}× as fast as A`;
    return `${result} in the geometric mean of ${times.length} ${times.length === 1 ? "test case" : "test cases"}: ${numbers}.`;
  }

  return { load, of, sorted, name, csv, caseRow, footnotes, meanRows, sentence };
})();
