// A comparison as CSV (RFC 4180), with the times in seconds, as they were measured and adjusted.
"use strict";

const Csv = (() => {
  const SIDE = ["commit", "machine", "environment", "implementation", "seconds", "seconds_low", "seconds_high", "seconds_adjusted", "gflops", "rounds", "outcome"];
  const HEADS = [
    "kernel", "device", "state", "case",
    ...["a", "b"].flatMap((letter) => SIDE.map((head) => `${head}_${letter}`)),
    "speed_ratio", "ratio_low", "ratio_high", "confirmed", "adjusted",
  ];

  /** Returns a field; a text that a spreadsheet would run as a formula gets an apostrophe before it. */
  function field(value) {
    if (value === null || value === undefined) return "";
    if (typeof value !== "string") return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function side(chosen, place, name, value) {
    const rate = value ? Ratios.gflops(value) : null;
    const times = [value?.seconds, value?.low, value?.high, value?.adjusted, rate, value?.rounds, value?.outcome];
    return [chosen.commit, place.machine, place.environment, name, ...times];
  }

  /** Returns the text of rows as they are shown. */
  function of(rows, chosen, places) {
    const lines = rows.map((row) => [
      row.kernel, row.device, row.state, row.test,
      ...side(chosen.a, places[chosen.a.place], row.nameA, row.a),
      ...side(chosen.b, places[chosen.b.place], row.nameB, row.b),
      row.said.ratio, row.said.low, row.said.high, row.said.confirmed, row.said.adjusted,
    ]);
    return [HEADS, ...lines].map((line) => `${line.map(field).join(",")}\r\n`).join("");
  }

  return { of };
})();
