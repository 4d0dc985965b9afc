// The tables of compare.html, made from the rows of versus_rows.js.
"use strict";

const Tables = (() => {
  const ADJUSTED = "adjusted: corrected for how busy the machine was in the very same rounds; what is compared";

  const cell = (parts, className = "value") => make("td", { class: className }, ...parts);
  const head = (...parts) => make("th", { scope: "row" }, ...parts);
  const details = (texts) => texts.filter(Boolean).map((text) => span("detail", text));

  // ---- footnotes: a Map of what they say, without a number of rounds, -> those numbers --------------------------------

  /** Returns the numbers of footnotes as they stand beside a value, and adds new ones to `notes`. */
  function marks(texts, notes) {
    const numbers = texts.map((text) => {
      const [, what, count, whole] = /^(\w+ in )(\d+)( of \d+ rounds)$/.exec(text) ?? []; // which many rows share
      const key = what === undefined ? text : `${what}\0${whole}`;
      if (!notes.has(key)) notes.set(key, []);
      notes.get(key).push(Number(count));
      return [...notes.keys()].indexOf(key) + 1;
    });
    return texts.length ? [make("sup", { class: "marks" }, [...new Set(numbers)].sort((a, b) => a - b).join(", "))] : [];
  }

  /** Returns the texts of footnotes. */
  function footnotes(notes) {
    return Array.from(notes, ([key, counts]) => {
      const [least, most] = [Math.min(...counts), Math.max(...counts)];
      return key.replace("\0", least === most ? String(least) : `${least} to ${most}`);
    });
  }

  // ---- by test case ---------------------------------------------------------------------------------------------------

  /** Returns the cell of a side; `adjusted`: the adjusted time as it was compared, and the measured one below. */
  function valueCell(value, unit, notes, adjusted) {
    if (value === null) return cell([span("text", "–")], "value absent");
    if (value.seconds === null) return cell([span("text", value.outcome), ...marks(value.remarks, notes)], `value ${value.outcome}`);
    const isRate = unit === "GFLOPS" && value.flop !== null;
    const inUnit = (seconds) => (isRate ? value.flop / seconds / 1e9 : 1e6 * seconds);
    const text = (seconds) => `${Numbers.significant(inUnit(seconds))} ${isRate ? Numbers.rateUnit(value.operation) : "µs"}`;
    const [seconds, ...ends] = Ratios.times(value, adjusted);
    const interval = ends.includes(null) ? "" : ends.map(inUnit).sort((a, b) => a - b).map(Numbers.significant).join(" to ");
    const notable = adjusted ? [ADJUSTED, ...value.remarks] : value.remarks;
    return cell([span("text", text(seconds)), ...marks(notable, notes), ...details([interval, adjusted && `measured: ${text(value.seconds)}`])]);
  }

  function ratioCell(change, notes) {
    if (change.ratio === undefined) return cell(change.why ? [span("change", "not comparable"), ...marks([change.why], notes)] : []);
    const isUnknown = change.low === null;
    const remarks = isUnknown ? ["no interval: too few rounds"] : change.adjusted ? [ADJUSTED] : [];
    const interval = isUnknown ? "" : `ratio ${change.low.toFixed(3)} to ${change.high.toFixed(3)}`;
    return cell([span("change", Ratios.words(change)), ...marks(remarks, notes), span("detail", interval)], `value ${Ratios.tone(change)}`);
  }

  /** Returns the table row of a test case, and adds its footnotes to `notes`. */
  function caseRow(row, unit, notes) {
    const href = `kernel-${encodeURIComponent(row.kernel)}-${encodeURIComponent(row.device)}.html`;
    return make("tr", {},
      head(make("a", { href }, foreign(row.kernel)), span("device", ` ${row.device} · ${row.state}`)),
      cell([foreign(Rows.implementation(row)), span("detail", foreign(row.test))], "names"),
      ratioCell(row.change, notes), ...[row.a, row.b].map((value) => valueCell(value, unit, notes, Boolean(row.change.adjusted))));
  }

  // ---- summaries, of rows that have a ratio ---------------------------------------------------------------------------

  const meanOf = (rows) => Ratios.mean(rows.map((row) => row.change.ratio));
  const count = (rows, tone) => rows.filter((row) => Ratios.tone(row.change) === tone).length;

  /** Returns a row for each kernel, and one for all of them. */
  function meanRows(rows) {
    const groups = new Map();
    for (const row of rows) {
      const name = `${row.kernel} ${row.device} · ${row.state}`;
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(row);
    }
    const entries = [...groups].sort(([a], [b]) => a.localeCompare(b, "en")).map((entry) => [...entry, ""]);
    if (entries.length > 1) entries.push(["all", rows, "whole"]);
    return entries.map(([name, members, className]) => {
      const mean = meanOf(members);
      return make("tr", { class: className }, head(foreign(name)), cell([span("change", Numbers.change(mean)), ...details([`ratio ${mean.toFixed(3)}`])]),
        ...[members.length, ...["faster", "slower", "same"].map((tone) => count(members, tone))].map((number) => cell([String(number)])));
    });
  }

  /** Returns the result in one sentence; `known` are the rows that have a ratio. */
  function sentence(known, all, isSame) {
    if (isSame) return "A and B are the same: choose another one.";
    if (all.length === 0) return "Neither side has a value here.";
    if (known.length === 0) return "No test case can be compared: none has times of both sides.";
    const mean = meanOf(known);
    const counts = `${count(known, "faster")} confirmed faster, ${count(known, "slower")} confirmed slower, ${count(known, "same")} not confirmed`;
    const result = mean === 1 ? "B is as fast as A" : `B is ${Numbers.change(mean)} than A`;
    return `${result} in the geometric mean of ${known.length} ${known.length === 1 ? "test case" : "test cases"}: ${counts}.`;
  }

  return { caseRow, footnotes, meanRows, sentence };
})();
