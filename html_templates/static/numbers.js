// Numbers as text, by the rules of units.py and roofline/model.py, and ratios of speeds, as in series/changes.py.
// tests/site/test_browser_numbers.py and test_browser_compare.py compare them with Python's. Text never rounds a value
// to 0 or to 100%.
"use strict";

const Numbers = (() => {
  const DIGITS = 3; // significant digits, as in units.py
  const TIMES = [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3], ["s", 1]];
  const SPANS = [["days", 86400], ["hours", 3600], ["minutes", 60]];
  const UNITS = { "GFLOPS": " GFLOPS", "GB/s": " GB/s", "µs": " µs", "speed-up": "×", "cache benefit": "×", "cold / hot": "×" };
  const WORDS = { seconds: ["faster", "slower"], bytes: ["smaller", "larger"] };
  const SIZES = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]];
  const EXCELLENT = 0.9; // as in roofline/model.py

  const grouped = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ",");

  /** Like toFixed, but rounds a tie to the even digit, as Python does. */
  function fixed(value, decimals) {
    const places = Math.min(decimals, 70), more = 30; // toFixed is exact up to 100 places
    const exact = value.toFixed(places + more);
    const cut = exact.slice(0, -more).replace(/\.$/, "");
    const isTie = exact.slice(-more) === `5${"0".repeat(more - 1)}`;
    return isTie && Number(cut.at(-1)) % 2 === 0 ? cut : value.toFixed(places);
  }

  /** A value with three significant digits, and all digits before the point. */
  function significant(value) {
    if (value === 0) return "0";
    const exponent = Number(value.toExponential(DIGITS - 1).split("e")[1]);
    const [whole, decimals] = fixed(value, Math.max(DIGITS - 1 - exponent, 0)).split(".");
    return decimals === undefined ? grouped(whole) : `${grouped(whole)}.${decimals}`;
  }

  /** The unit for a time in s, which leaves 1 to 999 before the point: {name, scale}, scale in s. */
  function unit(value) {
    const [name, scale] = TIMES.find(([, size]) => Number((value / size).toExponential(DIGITS - 1)) < 1000) ?? TIMES.at(-1);
    return { name, scale };
  }

  function seconds(value) {
    const { name, scale } = unit(value);
    return `${significant(value / scale)} ${name}`;
  }

  /** The unit for a long span of time in s: {name, scale}. */
  function span(value) {
    const [name, scale] = SPANS.find(([, size]) => value > 3 * size) ?? ["seconds", 1];
    return { name, scale };
  }

  // `operation` is "FLOP", or "OP" for integers; rates are in 10^9 operations per second
  const rateUnit = (operation) => `G${operation}S`;
  const rate = (value, operation) => `${significant(value)} ${rateUnit(operation)}`;
  const count = (value) => grouped(String(value));

  /** A fraction in percent. */
  function share(fraction) {
    const percent = 100 * fraction;
    if (percent > 0 && percent < 0.05) return "<0.1%";
    if (percent >= 99.95 && percent < 100) return ">99.9%";
    if (percent > 100 && percent < 100.05) return ">100.0%";
    return `${fixed(percent, 1)}%`;
  }

  /** An efficiency in percent, rounded down: below 100%, or 90%, where the fraction is less. */
  function efficiency(fraction) {
    let tenths = Math.floor(Number((fraction * 1000).toFixed(9)));
    for (const edge of [1, EXCELLENT]) if (fraction < edge) tenths = Math.min(tenths, Math.round(edge * 1000) - 1);
    return fraction > 0 && tenths === 0 ? "<0.1%" : `${(tenths / 10).toFixed(1)}%`;
  }

  /** A ratio of values, old / new: "3.2% faster", "2.10x slower", "5.0% larger"; percentages are of the value. "unchanged" only for exactly 1. */
  function change(ratio, ofUnit = "seconds") {
    if (ratio === 1) return "unchanged";
    const factor = Math.max(ratio, 1 / ratio);
    const [less, more] = WORDS[ofUnit] ?? ["lower", "higher"];
    return `${factor >= 2 ? `${significant(factor)}x` : share(Math.abs(1 / ratio - 1))} ${ratio > 1 ? less : more}`;
  }

  /** A value in a unit as asv writes it: "1.23 ms" of "seconds", "12.3 MB" of "bytes". */
  function inUnit(value, ofUnit = "seconds") {
    if (ofUnit === "seconds" && value >= 1e-12 && value <= 1e11) return seconds(value); // as in bounds.py
    const [name, scale] = (ofUnit === "bytes" && SIZES.find(([, size]) => value >= 0.9995 * size)) || [ofUnit, 1];
    const scaled = value / scale;
    const isPlain = value === 0 || (Math.abs(scaled) >= 1e-6 && Math.abs(scaled) < 1e15);
    return `${isPlain ? significant(scaled) : scaled.toExponential(2)} ${name}`.trimEnd();
  }

  /** A relative difference: "+3.00%". */
  const difference = (fraction) => (fraction === 0 ? "0%" : `${fraction < 0 ? "−" : "+"}${significant(Math.abs(100 * fraction))}%`);

  /** A value of a quantity of a kernel's page, in its unit or in another. */
  function value(number, quantity, otherUnit) {
    if (number === null || Number.isNaN(number)) return "unknown";
    if (quantity === "efficiency") return efficiency(number / 100);
    if (quantity === "error") return number === 0 ? "0" : number.toExponential(2);
    return significant(number) + (otherUnit === undefined ? UNITS[quantity] : ` ${otherUnit}`.trimEnd());
  }

  /** An interval: "11.9 to 12.4 GFLOPS". */
  function interval(low, high, quantity, otherUnit) {
    if (Number.isNaN(low) || Number.isNaN(high)) return "unknown";
    return `${quantity in UNITS || otherUnit !== undefined ? significant(low) : value(low, quantity)} to ${value(high, quantity, otherUnit)}`;
  }

  return { significant, seconds, unit, span, rateUnit, rate, count, share, efficiency, change, inUnit, difference, value, interval };
})();

/**
 * What a series did from one entry to another: {word, ratio, low, high, within}; ratios are of times, new / old.
 * Written as series/verdicts.py has it, from the `levels` of a series and its times, null where there is none.
 */
function verdictOf({ steps = [], doubt = null, within }, seconds, from, to) {
  const MIN_EFFECT = Math.log(1.01);
  const MOST_WITHIN = 0.5;
  const [old, now] = from < to ? [from, to] : [to, from];
  const sign = from < to ? 1 : -1;
  const between = steps.filter(([entry]) => old < entry && entry <= now);
  const counted = between.filter(([, , , , isBlamed]) => isBlamed);
  const effect = sign * counted.reduce((sum, [, ratio]) => sum + Math.log(ratio), 0);
  if (Math.abs(effect) >= MIN_EFFECT) {
    const half = Math.hypot(...counted.map(([, , low, high]) => Math.log(high / low) / 2));
    const [ratio, low, high] = [0, -half, half].map((side) => Math.exp(effect + side));
    return { word: effect > 0 ? "slower" : "faster", ratio, low, high, within: null };
  }
  const level = steps.filter(([entry]) => entry <= old).length;
  const edges = [0, ...steps.map(([entry]) => entry), seconds.length];
  const timed = (start, end) => seconds.slice(start, end).filter((value) => value !== null).length;
  const sizes = within[level];
  const shorter = Math.min(timed(edges[level], old + 1), timed(old + 1, edges[level + 1]), sizes.length);
  const least = sizes[Math.max(shorter, 1) - 1];
  const isDoubted = doubt !== null && old < doubt && doubt <= now;
  const word = isDoubted || between.length > counted.length || !(least <= MOST_WITHIN) ? "undecided" : "unchanged";
  return { word, ratio: 1, low: null, high: null, within: word === "unchanged" ? least : null };
}

/**
 * Sides of different series compared. A side is {seconds, low, high, adjusted, adjusted_low, adjusted_high, method,
 * version}: s per call, null where unknown. Ratios are of times, b / a.
 */
const Ratios = (() => {
  const FALSE_DISCOVERIES = 0.01; // expected share among the differences of a page (Benjamini and Hochberg, 1995)
  const HALF = 1.96; // of a 95% interval, in standard errors

  /** Returns [time, low, high] of a side, adjusted or as measured. */
  const times = (side, adjusted) =>
    (adjusted ? [side.adjusted, side.adjusted_low, side.adjusted_high] : [side.seconds, side.low, side.high]);

  const isKnown = (values) => values.every((value) => typeof value === "number");

  /** Returns why two sides have no ratio; null where they have one, "" where nothing has to be said. */
  function lacking(a, b) {
    if (a.seconds === null || b.seconds === null || Math.min(a.seconds, b.seconds) <= 0) return "";
    if (a.method !== null && b.method !== null && a.method !== b.method) return "timed by another method";
    return a.version === b.version ? null : "another version of the benchmark";
  }

  /**
   * Returns the ratio and its interval, null where it is unknown. Interval: MOVER on logarithms (Zou and Donner,
   * Statistics in Medicine 27, 2008).
   */
  function compare(a, b, sameMachine) {
    const adjusted = sameMachine && isKnown([...times(a, true), ...times(b, true)]);
    const [[timeA, lowA, highA], [timeB, lowB, highB]] = [times(a, adjusted), times(b, adjusted)];
    const ratio = timeB / timeA;
    const { unit } = b; // of values that are no times
    if (!isKnown([lowA, highA, lowB, highB])) return { ratio, low: null, high: null, adjusted, unit, word: "undecided" };
    const middle = Math.log(ratio);
    const low = Math.exp(middle - Math.hypot(Math.log(highA / timeA), Math.log(timeB / lowB)));
    const high = Math.exp(middle + Math.hypot(Math.log(timeA / lowA), Math.log(highB / timeB)));
    return { ratio, low, high, adjusted, unit, word: "undecided" };
  }

  /** Sets the words of some comparisons: slower or faster where the share of false ones among all is controlled. */
  function decide(changes) {
    const known = changes.filter(({ low }) => low !== null);
    const p = ({ ratio, low, high }) => {
      const z = Math.abs(Math.log(ratio)) / (Math.log(high / low) / 2 / HALF);
      return z > 0 ? Math.min(1, (2 * Math.exp(-z * z / 2)) / (z * Math.sqrt(2 * Math.PI))) : 1; // a bound, near where it counts
    };
    const ordered = known.map((change) => ({ change, p: p(change) })).sort((x, y) => x.p - y.p);
    const last = ordered.findLastIndex((test, at) => test.p <= (FALSE_DISCOVERIES * (at + 1)) / ordered.length);
    for (const { change } of ordered.slice(0, last + 1)) change.word = change.ratio > 1 ? "slower" : "faster";
  }

  /** Returns how a comparison is coloured; "" without one. */
  function tone({ word, unit = "seconds" }) {
    if (word === undefined) return "";
    return ["slower", "faster"].includes(word) && !["seconds", "bytes"].includes(unit) ? "same" : word;
  }

  /** Returns a comparison in words: of one series its verdict, of two the factor between them. */
  function words({ word, ratio, unit, isOneSeries }) {
    if (isOneSeries) return ["slower", "faster"].includes(word) ? Numbers.change(1 / ratio, unit) : word;
    return (unit ?? "seconds") === "seconds" ? `${Numbers.significant(1 / ratio)}× as fast` : Numbers.change(1 / ratio, unit);
  }

  /** Returns the geometric mean of ratios; null for none. */
  const mean = (ratios) => (ratios.length ? Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length) : null);

  return { times, lacking, compare, decide, tone, words, mean };
})();
