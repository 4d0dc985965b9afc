// How two sides compare: pure functions, held against series/changes.py by the browser tests.
// A side is {seconds, low, high, adjusted, adjustedLow, adjustedHigh, method, flop, operation}; times in s per call, null: unknown.
"use strict";

const Ratios = (() => {
  /** Returns a side's rate, 10^9 operations per second, at a time; null where FLOPs or time are unknown. */
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

  return { gflops, times, compare, mean };
})();
