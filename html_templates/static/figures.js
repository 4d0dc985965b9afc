// Numbers as text, for pages that place values themselves: the same rules as tools/units.py and roofline.percent, and
// held against them by a test. What is not zero is never printed as zero, what is not the whole never as the whole.
"use strict";

const Figures = (() => {
  const TIMES = [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3], ["s", 1]];

  /** Returns a value with three significant digits, thousands separated; digits before the point are never dropped. */
  function significant(value) {
    if (value === 0) return "0";
    const rounded = Math.abs(Number(value.toPrecision(3)));
    const decimals = Math.max(2 - Math.floor(Math.log10(rounded) + 1e-12), 0);
    const [whole, fraction] = value.toFixed(Math.min(decimals, 100)).split(".");
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
    return fraction === undefined ? grouped : `${grouped}.${fraction}`;
  }

  /** Returns a time, s, with the prefix that leaves 1 to 999 before the point. */
  function seconds(value) {
    const { name, scale } = unit(value);
    return `${significant(value / scale)} ${name}`;
  }

  /** Returns the unit that a time, s, is best read in: its name, and how many s it is. */
  function unit(value) {
    const [name, scale] = TIMES.find(([, each]) => Number((value / each).toPrecision(3)) < 1000) ?? TIMES[3];
    return { name, scale };
  }

  /** Returns the unit, and how many s it is, that a span of time is best read in. */
  function span(value) {
    return [["days", 86400], ["hours", 3600], ["minutes", 60]].find(([, each]) => value > 3 * each) ?? ["seconds", 1];
  }

  /** Returns a whole number, thousands separated. */
  function count(value) {
    return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
  }

  /** Returns an efficiency in percent, rounded down: never 100%, nor 90%, where it is less. */
  function percent(share) {
    let tenths = Math.floor(Number((share * 1000).toFixed(9)));
    for (const edge of [1, 0.9]) if (share < edge) tenths = Math.min(tenths, Math.round(edge * 1000) - 1);
    return share > 0 && tenths === 0 ? "<0.1%" : `${(tenths / 10).toFixed(1)}%`;
  }

  /** Returns a relative difference with its sign: "+3.00%". */
  function difference(share) {
    return share === 0 ? "0%" : `${share < 0 ? "−" : "+"}${significant(Math.abs(100 * share))}%`;
  }

  return { significant, seconds, unit, span, count, percent, difference };
})();
