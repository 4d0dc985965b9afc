// The rows of a comparison: series loaded as they are needed, compared, sorted, and as CSV.
"use strict";

const Rows = (() => {
  const AT_ONCE = 16; // files loaded at a time
  const TIMES = { seconds: "seconds", low: "low", high: "high", adjusted: "adjusted", adjustedLow: "adjusted_low", adjustedHigh: "adjusted_high" };
  const loaded = new Map(); // name of a series -> its columns, typed so that thousands of series fit

  /** Returns the columns that a comparison needs of a series; `places`: the commit of each entry, an index by `order`. */
  function compact(data, order) {
    const times = Object.entries(TIMES).map(([name, column]) => [name, Float64Array.from(data[column] ?? [], (value) => value ?? NaN)]);
    const { rounds, method, outcome, remarks, flop, operation, version } = data;
    return {
      commits: Int32Array.from(data.commit, (sha) => order.get(sha) ?? -1), times,
      rounds, method, outcome, remarks, flop, operation, version,
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
      const { flop, operation, version } = columns;
      return [{
        ...Object.fromEntries(times), flop, operation, version,
        rounds: columns.rounds[entry], method: columns.method[entry], outcome: columns.outcome[entry],
        remarks: columns.remarks[String(entry)] ?? [],
      }];
    });
    return values.find((value) => value.seconds !== null) ?? values[0] ?? null;
  }

  const isEmpty = (value) => value === null || value.outcome === "n/a";

  /** Returns the rows of a choice: both sides of each pair of series, and their comparison. */
  function of(chosen, pairs, order) {
    const sameMachine = chosen.a.place === chosen.b.place;
    return pairs.flatMap(([versionsA, versionsB]) => {
      const a = valueOf(versionsA, order.get(chosen.a.commit));
      const b = valueOf(versionsB, order.get(chosen.b.commit));
      if (isEmpty(a) && isEmpty(b)) return [];
      const { kernel, device, state, case: test } = (versionsA ?? versionsB)[0];
      const [nameA, nameB] = [versionsA, versionsB].map((versions) => versions?.[0].implementation ?? null);
      return [{ kernel, device, state, test, nameA, nameB, a, b, change: a && b ? Ratios.compare(a, b, sameMachine) : { why: "" } }];
    });
  }

  const implementation = (row) => [...new Set([row.nameA, row.nameB].filter((name) => name !== null))].join(" → ");
  const name = (row) => [row.kernel, row.device, row.state, implementation(row), row.test].join(" ");

  const RANKS = { effect: (ratio) => -Math.abs(Math.log(ratio)), slower: (ratio) => ratio, faster: (ratio) => -ratio, name: () => 0 };

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
    "speed_ratio", "ratio_low", "ratio_high", "confirmed", "adjusted",
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
      ...["ratio", "low", "high", "confirmed", "adjusted"].map((key) => row.change[key]),
    ]);
    return [HEADS, ...lines].map((line) => `${line.map(field).join(",")}\r\n`).join("");
  }

  return { load, of, sorted, name, implementation, csv };
})();
