// Numbers as text, for all pages, by the same rules as units.py and roofline.percent, and held against them by
// tests/site/test_numbers_browser.py: what is not zero is never printed as zero, what is not the whole never as the whole.
"use strict";

const Numbers = (() => {
  const DIGITS = 3; // significant ones, as in units.py
  const TIMES = [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3], ["s", 1]];
  const SPANS = [["days", 86400], ["hours", 3600], ["minutes", 60]];
  const UNITS = { "GFLOPS": " GFLOPS", "GB/s": " GB/s", "µs": " µs", "speed-up": "×", "cache benefit": "×", "cold / hot": "×" };
  const EXCELLENT = 0.9; // as in roofline/model.py

  /** As toFixed, which rounds a tie up: here it goes to the even digit, as in Python. */
  function fixed(value, decimals) {
    const [known, beyond] = [Math.min(decimals, 70), 30];
    const exact = value.toFixed(known + beyond);
    const kept = exact.slice(0, -beyond).replace(/\.$/, "");
    const tie = exact.slice(-beyond) === `5${"0".repeat(beyond - 1)}`;
    return tie && Number(kept.at(-1)) % 2 === 0 ? kept : value.toFixed(known);
  }

  function grouped(whole) {
    return whole.replace(/\B(?=(\d{3})+$)/g, ",");
  }

  /** A value with three significant digits, thousands separated; digits before the point are never dropped. */
  function significant(value) {
    if (value === 0) return "0";
    const exponent = Number(value.toExponential(DIGITS - 1).split("e")[1]);
    const [whole, rest] = fixed(value, Math.max(DIGITS - 1 - exponent, 0)).split(".");
    return rest === undefined ? grouped(whole) : `${grouped(whole)}.${rest}`;
  }

  /** The unit that a time, s, is best read in: its name, and how many s it is. */
  function unit(value) {
    const [name, scale] = TIMES.find(([, each]) => Number((value / each).toExponential(DIGITS - 1)) < 1000) ?? TIMES.at(-1);
    return { name, scale };
  }

  /** A time, s, with the prefix that leaves 1 to 999 before the point. */
  function seconds(value) {
    const { name, scale } = unit(value);
    return `${significant(value / scale)} ${name}`;
  }

  /** The unit that a span of time, s, is best read in, as `unit`. */
  function span(value) {
    const [name, scale] = SPANS.find(([, each]) => value > 3 * each) ?? ["seconds", 1];
    return { name, scale };
  }

  /** The unit of a rate, 10^9 operations per second, by what the data count: "FLOP", or "OP" of integers. */
  function rateUnit(operation) {
    return `G${operation}S`;
  }

  /** A rate given in that unit. */
  function rate(value, operation) {
    return `${significant(value)} ${rateUnit(operation)}`;
  }

  /** An arithmetic intensity, operations per byte. */
  function intensity(value, operation) {
    return `${significant(value)} ${operation}/B`;
  }

  /** A rate given in GB/s. */
  function gigabytes(value) {
    return `${significant(value)} GB/s`;
  }

  /** A whole number. */
  function count(value) {
    return grouped(String(value));
  }

  /** A fraction in percent: never 0% unless it is 0, never 100% unless it is 1. */
  function share(fraction) {
    const percent = 100 * fraction;
    if (percent > 0 && percent < 0.05) return "<0.1%";
    if (percent >= 99.95 && percent < 100) return ">99.9%";
    if (percent > 100 && percent < 100.05) return ">100.0%";
    return `${fixed(percent, 1)}%`;
  }

  /** An efficiency in percent, rounded down: never 100%, nor 90%, where it is less. */
  function efficiency(fraction) {
    let tenths = Math.floor(Number((fraction * 1000).toFixed(9)));
    for (const edge of [1, EXCELLENT]) if (fraction < edge) tenths = Math.min(tenths, Math.round(edge * 1000) - 1);
    return fraction > 0 && tenths === 0 ? "<0.1%" : `${(tenths / 10).toFixed(1)}%`;
  }

  /** A speed ratio in words: "3.2% faster", "2.10x slower"; only exactly 1 is "unchanged". */
  function change(ratio) {
    if (ratio === 1) return "unchanged";
    const word = ratio > 1 ? "faster" : "slower";
    const most = Math.max(ratio, 1 / ratio);
    return most >= 2 ? `${significant(most)}x ${word}` : `${share(Math.abs(ratio - 1))} ${word}`;
  }

  /** A relative difference with its sign: "+3.00%". */
  function difference(fraction) {
    return fraction === 0 ? "0%" : `${fraction < 0 ? "−" : "+"}${significant(Math.abs(100 * fraction))}%`;
  }

  /** A value of a quantity that a kernel's page offers, with its unit, or another than usual; "unknown" for null and NaN. */
  function value(number, quantity, unit) {
    if (number === null || Number.isNaN(number)) return "unknown";
    if (quantity === "efficiency") return efficiency(number / 100);
    if (quantity === "error") return number === 0 ? "0" : number.toExponential(2);
    return significant(number) + (unit === undefined ? UNITS[quantity] : ` ${unit}`);
  }

  /** Both ends of an interval: "11.9 to 12.4 GFLOPS"; "unknown" where one is. */
  function interval(low, high, quantity, unit) {
    if (Number.isNaN(low) || Number.isNaN(high)) return "unknown";
    const bare = quantity in UNITS ? significant(low) : value(low, quantity);
    return `${bare} to ${value(high, quantity, unit)}`;
  }

  return { significant, seconds, unit, span, rateUnit, rate, intensity, gigabytes, count, share, efficiency, change, difference, value, interval };
})();
