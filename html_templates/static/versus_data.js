// The data of compare.html: series loaded as they are needed, kept as typed columns so that thousands fit, and the rows
// of a comparison.
"use strict";

const Rows = (() => {
  const AT_ONCE = 16; // files that are loaded at a time
  const TIMES = ["seconds", "low", "high", "adjusted", "adjusted_low", "adjusted_high"];
  const kept = new Map(); // name of a series -> its columns

  /** Returns the columns that a comparison needs of a series' file; commits become places in `order`. */
  function compact(data, order) {
    return {
      places: Int32Array.from(data.commit, (sha) => order.get(sha) ?? -1),
      times: TIMES.map((name) => Float64Array.from(data[name] ?? [], (value) => value ?? NaN)),
      rounds: data.rounds,
      method: data.method,
      outcome: data.outcome,
      remarks: data.remarks,
      flop: data.flop,
      operation: data.operation,
      version: data.version,
    };
  }

  /** Loads the series of these names, some at a time; returns how many could not be, or null once `wanted()` is false. */
  async function load(names, order, wanted, told) {
    const missing = names.filter((name) => !kept.has(name));
    let [next, done, failed] = [0, 0, 0];
    async function worker() {
      while (next < missing.length && wanted()) {
        const name = missing[next];
        next += 1;
        try {
          kept.set(name, compact(await Series.load(name), order));
        } catch {
          failed += 1;
        }
        Series.forget(name);
        done += 1;
        if (wanted()) told(done, missing.length);
      }
    }
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, missing.length) }, worker));
    return wanted() ? failed : null;
  }

  /** Returns the index of a place in ascending places; null where it is not among them. */
  function entryOf(places, place) {
    let [low, high] = [0, places.length - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (places[middle] === place) return middle;
      if (places[middle] < place) low = middle + 1;
      else high = middle - 1;
    }
    return null;
  }

  function valueAt(columns, entry) {
    const [seconds, low, high, adjusted, adjustedLow, adjustedHigh] = columns.times.map((column) =>
      Number.isNaN(column[entry] ?? NaN) ? null : column[entry],
    );
    return {
      seconds, low, high, adjusted, adjustedLow, adjustedHigh,
      rounds: columns.rounds[entry], method: columns.method[entry], outcome: columns.outcome[entry],
      remarks: columns.remarks[String(entry)] ?? [], flop: columns.flop, operation: columns.operation, version: columns.version,
    };
  }

  /** Returns what a series says of a commit; of several versions the first that has a time. */
  function valueOf(versions, place) {
    let found = null;
    for (const one of versions ?? []) {
      const columns = kept.get(one.name);
      const entry = columns ? entryOf(columns.places, place) : null;
      if (entry === null) continue;
      const value = valueAt(columns, entry);
      if (found === null || (found.seconds === null && value.seconds !== null)) found = value;
    }
    return found;
  }

  const isEmpty = (value) => value === null || value.outcome === "n/a";

  /** Returns the rows of a choice: what both sides say of each pair of series, and how they compare. */
  function of(chosen, pairs, order) {
    const sameMachine = chosen.a.place === chosen.b.place;
    const found = [];
    for (const [a, b] of pairs) {
      const [valueA, valueB] = [valueOf(a, order.get(chosen.a.commit)), valueOf(b, order.get(chosen.b.commit))];
      if (isEmpty(valueA) && isEmpty(valueB)) continue;
      const { kernel, device, state, case: test } = (a ?? b)[0];
      const [nameA, nameB] = [a, b].map((versions) => versions?.[0].implementation ?? null);
      const said = valueA && valueB ? Ratios.compare(valueA, valueB, sameMachine) : { why: "" };
      found.push({ kernel, device, state, test, nameA, nameB, a: valueA, b: valueB, said });
    }
    return found;
  }

  const implementation = (row) => [...new Set([row.nameA, row.nameB].filter((name) => name !== null))].join(" → ");
  const name = (row) => [row.kernel, row.device, row.state, implementation(row), row.test].join(" ");
  const effect = (row) => (row.said.ratio === undefined ? null : Math.log(row.said.ratio));

  /** Returns rows in an order: "effect", "slower", "faster" (first), "name"; those without a ratio last. */
  function sorted(rows, order) {
    const ranks = { effect: (value) => -Math.abs(value), slower: (value) => value, faster: (value) => -value, name: () => 0 };
    const keyed = rows.map((row) => {
      const value = effect(row);
      return { row, rank: order !== "name" && value === null ? Infinity : ranks[order](value), name: name(row) };
    });
    keyed.sort((one, other) =>
      one.rank === other.rank ? one.name.localeCompare(other.name, "en", { numeric: true }) : one.rank - other.rank,
    );
    return keyed.map((item) => item.row);
  }

  return { load, of, sorted, name, implementation };
})();
