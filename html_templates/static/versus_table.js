// The tables of compare.html. No text becomes HTML: everything foreign is set as text.
"use strict";

const Tables = (() => {
  const ADJUSTED = "adjusted: corrected for how busy the machine was in the very same rounds; what is compared";

  const element = (name, text, settings = {}) => make(name, settings, ...(text ? [text] : []));

  function cell(parts, className = "value") {
    const made = element("td", "", { class: className });
    made.append(...parts);
    return made;
  }

  /**
   * Returns the numbers of footnotes as they stand beside a value; `notes` gets those that are new, by what they say
   * but for a number of rounds: Map of it -> the counts.
   */
  function marks(texts, notes) {
    if (texts.length === 0) return [];
    for (const text of texts) {
      const [same, count] = counted(text);
      if (!notes.has(same)) notes.set(same, []);
      notes.get(same).push(count);
    }
    const known = [...notes.keys()];
    const numbers = [...new Set(texts.map((text) => known.indexOf(counted(text)[0]) + 1))].sort((one, other) => one - other);
    return [element("sup", numbers.join(", "), { class: "marks" })];
  }

  /** Returns what a remark says, and of how many rounds: "contended in 3 of 8 rounds", which many rows have in common. */
  function counted(text) {
    const [, what, count, whole] = /^(\w+ in )(\d+)( of \d+ rounds)$/.exec(text) ?? [];
    return what === undefined ? [text, null] : [`${what}\0${whole}`, Number(count)];
  }

  /** Returns the texts of footnotes. */
  function footnotes(notes) {
    return [...notes].map(([same, counts]) => {
      const [least, most] = [Math.min(...counts), Math.max(...counts)];
      return same.replace("\0", least === most ? String(least) : `${least} to ${most}`);
    });
  }

  /** Returns the cell of a side; `adjusted`: as it was compared, corrected for the machine, and as measured below. */
  function valueCell(value, unit, notes, adjusted) {
    if (value === null) return cell([element("span", "–", { class: "text" })], "value absent");
    if (value.seconds === null) {
      return cell([element("span", value.outcome, { class: "text" }), ...marks(value.remarks, notes)], `value ${value.outcome}`);
    }
    const isRate = unit === "GFLOPS" && value.flop !== null;
    const inUnit = (seconds) => (isRate ? Ratios.gflops(value, seconds) : 1e6 * seconds);
    const text = (seconds) => `${Numbers.significant(inUnit(seconds))} ${isRate ? Numbers.rateUnit(value.operation) : "µs"}`;
    const [seconds, low, high] = Ratios.times(value, adjusted);
    const ends = low === null || high === null ? [] : [inUnit(low), inUnit(high)];
    const interval = ends.sort((one, other) => one - other).map(Numbers.significant).join(" to ");
    const details = [interval, adjusted ? `measured: ${text(value.seconds)}` : ""].filter(Boolean);
    const notable = [...(adjusted ? [ADJUSTED] : []), ...value.remarks];
    return cell([
      element("span", text(seconds), { class: "text" }), ...marks(notable, notes),
      ...details.map((detail) => element("span", detail, { class: "detail" })),
    ]);
  }

  /** Returns how a ratio is to be coloured, "" for none. */
  function tone(said) {
    if (said.ratio === undefined) return "";
    if (!said.confirmed || said.ratio === 1) return "same";
    return said.ratio > 1 ? "faster" : "slower";
  }

  function ratioCell(said, notes) {
    if (said.ratio === undefined) {
      return cell(said.why ? [element("span", "not comparable", { class: "change" }), ...marks([said.why], notes)] : []);
    }
    const unsure = said.confirmed || said.ratio === 1 ? "" : "≈ ";
    const footnotes = said.low === null ? ["no interval: too few rounds"] : said.adjusted ? [ADJUSTED] : [];
    const interval = said.low === null ? "" : `ratio ${said.low.toFixed(3)} to ${said.high.toFixed(3)}`;
    return cell(
      [element("span", unsure + Numbers.change(said.ratio), { class: "change" }), ...marks(footnotes, notes), element("span", interval, { class: "detail" })],
      `value ${tone(said)}`,
    );
  }

  /** Returns a row of a test case; `notes` gets its footnotes. */
  function caseRow(row, unit, notes) {
    const made = element("tr");
    const head = element("th", "", { scope: "row" });
    const href = `kernel-${encodeURIComponent(row.kernel)}-${encodeURIComponent(row.device)}.html`;
    const link = element("a", "", { href });
    link.append(element("bdi", row.kernel));
    head.append(link, element("span", ` ${row.device} · ${row.state}`, { class: "device" }));
    const [implementation, test] = [Rows.implementation(row), row.test].map((text) => element("bdi", text));
    const detail = element("span", "", { class: "detail" });
    detail.append(test);
    made.append(head, cell([implementation, detail], "names"), ratioCell(row.said, notes));
    for (const value of [row.a, row.b]) made.append(valueCell(value, unit, notes, Boolean(row.said.adjusted)));
    return made;
  }

  const count = (rows, wanted) => rows.filter((row) => tone(row.said) === wanted).length;

  function meanRow(name, rows, className) {
    const made = element("tr", "", { class: className });
    const mean = Ratios.mean(rows.map((row) => row.said.ratio));
    const head = element("th", "", { scope: "row" });
    head.append(element("bdi", name));
    const words = [element("span", Numbers.change(mean), { class: "change" }), element("span", `ratio ${mean.toFixed(3)}`, { class: "detail" })];
    made.append(head, cell(words), cell([String(rows.length)]));
    for (const wanted of ["faster", "slower", "same"]) made.append(cell([String(count(rows, wanted))]));
    return made;
  }

  /** Returns a row for each kernel and one for all of them, of rows that have a ratio. */
  function meanRows(rows) {
    const groups = new Map();
    for (const row of rows) {
      const name = `${row.kernel} ${row.device} · ${row.state}`;
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(row);
    }
    const names = [...groups.keys()].sort((one, other) => one.localeCompare(other, "en"));
    const made = names.map((name) => meanRow(name, groups.get(name), ""));
    return made.length > 1 ? [...made, meanRow("all", rows, "whole")] : made;
  }

  /** Returns the result in one sentence; `known` are the rows that have a ratio. */
  function sentence(known, all, isOneAndTheSame) {
    if (isOneAndTheSame) return "A and B are the same: choose another one.";
    if (all.length === 0) return "Neither side has a value here.";
    const mean = Ratios.mean(known.map((row) => row.said.ratio));
    if (mean === null) return "No test case can be compared: none has times of both sides.";
    const counts = `${count(known, "faster")} confirmed faster, ${count(known, "slower")} confirmed slower, ${count(known, "same")} not confirmed`;
    const what = mean === 1 ? "B is as fast as A" : `B is ${Numbers.change(mean)} than A`;
    return `${what} in the geometric mean of ${known.length} ${known.length === 1 ? "test case" : "test cases"}: ${counts}.`;
  }

  return { element, caseRow, footnotes, meanRows, sentence };
})();
