// The arithmetic of compare.html: pure functions, held against tools/units.py and tools/trends.py by the browser tests.
// A side is {seconds, low, high, adjusted, adjustedLow, adjustedHigh, method, flop}; times in s per call, null: unknown.
"use strict";

const Numbers = (() => {
  const DIGITS = 3; // as tools/units.py

  /** Returns a number with so many decimals; a tie goes to the even digit, as in Python. */
  function fixed(value, decimals, useGrouping = true) {
    const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
    return value.toLocaleString("en-US", { ...digits, useGrouping, roundingMode: "halfEven" });
  }

  /** Returns a number with three significant digits, none before the decimal point dropped, no exponent. */
  function significant(value) {
    if (value === 0) return "0";
    const rounded = Number(value.toExponential(DIGITS - 1)); // rounding may carry into a further digit
    const decimals = Math.max(DIGITS - 1 - Math.floor(Math.log10(Math.abs(rounded)) + 1e-12), 0);
    return fixed(value, decimals);
  }

  /** Returns a fraction in percent: never 0% unless it is 0, never 100% unless it is 1. */
  function share(fraction) {
    const percent = 100 * fraction;
    if (percent > 0 && percent < 0.05) return "<0.1%";
    if (percent >= 99.95 && percent < 100) return ">99.9%";
    if (percent > 100 && percent < 100.05) return ">100.0%";
    return `${fixed(percent, 1, false)}%`;
  }

  /** Returns a speed ratio in words: "3.2% faster", "2.10x slower"; only exactly 1 is "unchanged". */
  function change(ratio) {
    if (ratio === 1) return "unchanged";
    const word = ratio > 1 ? "faster" : "slower";
    const least = 2;
    if (ratio >= least || 1 / ratio >= least) return `${significant(Math.max(ratio, 1 / ratio))}x ${word}`;
    return `${share(Math.abs(ratio - 1))} ${word}`;
  }

  const gflops = (side, seconds = side.seconds) => (side.flop === null || seconds === null ? null : side.flop / seconds / 1e9);

  /** Returns [time, low, high] of a side; adjusted, or as measured. */
  const times = (side, adjusted) =>
    adjusted ? [side.adjusted, side.adjustedLow, side.adjustedHigh] : [side.seconds, side.low, side.high];

  const isKnown = (values) => values.every((value) => typeof value === "number");

  /**
   * Returns the ratio of speeds b / a with its interval (null without one) and whether the intervals confirm it; or why
   * there is none. Interval: MOVER on logarithms (Zou and Donner, Statistics in Medicine 27, 2008).
   */
  function compare(a, b, sameMachine) {
    if (a.seconds === null || b.seconds === null) return { why: "" };
    if (a.method !== null && b.method !== null && a.method !== b.method) return { why: "timed by another method" };
    if (a.version !== b.version) return { why: "another version of the benchmark" };
    const adjusted = sameMachine && isKnown([...times(a, true), ...times(b, true)]);
    const [[timeA, lowA, highA], [timeB, lowB, highB]] = [times(a, adjusted), times(b, adjusted)];
    const found = { ratio: timeA / timeB, low: null, high: null, confirmed: false, adjusted };
    if (!isKnown([lowA, highA, lowB, highB])) return found;
    const middle = Math.log(timeA / timeB);
    found.low = Math.exp(middle - Math.hypot(Math.log(timeA / lowA), Math.log(highB / timeB)));
    found.high = Math.exp(middle + Math.hypot(Math.log(highA / timeA), Math.log(timeB / lowB)));
    found.confirmed = !(lowA <= highB && lowB <= highA);
    return found;
  }

  /** Returns the geometric mean of ratios; null for none. */
  function mean(ratios) {
    if (ratios.length === 0) return null;
    return Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length);
  }

  return { significant, share, change, gflops, compare, mean };
})();
