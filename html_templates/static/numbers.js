// Numbers as text, by the same rules as tools/units.py: three significant digits, never a zero that is none.
"use strict";

const Numbers = (() => {
  const DIGITS = 3;
  const TIMES = [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3], ["s", 1]];
  const UNITS = { "GFLOPS": " GFLOPS", "GB/s": " GB/s", "µs": " µs", "speed-up": "×", "cache benefit": "×", "cold / hot": "×" };

  /** As toFixed, which rounds a tie up: here it goes to the even digit, as in Python. */
  function fixed(value, decimals) {
    const [known, beyond] = [Math.min(decimals, 70), 30];
    const exact = value.toFixed(known + beyond);
    const kept = exact.slice(0, -beyond).replace(/\.$/, "");
    const tie = exact.slice(-beyond) === `5${"0".repeat(beyond - 1)}`;
    return tie && Number(kept.at(-1)) % 2 === 0 ? kept : value.toFixed(known);
  }

  function significant(value) {
    if (value === 0) return "0";
    const exponent = Number(value.toExponential(DIGITS - 1).split("e")[1]);
    const [whole, rest] = fixed(value, Math.max(DIGITS - 1 - exponent, 0)).split(".");
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
    return rest === undefined ? grouped : `${grouped}.${rest}`;
  }

  /** A time given in seconds. */
  function seconds(value) {
    const fits = TIMES.find(([, scale]) => Number((value / scale).toExponential(DIGITS - 1)) < 1000) ?? TIMES[3];
    return `${significant(value / fits[1])} ${fits[0]}`;
  }

  /** A share given in percent, rounded down, as tools/roofline.py does: what is not whole never says so. */
  function percent(value) {
    const tenths = Math.floor(Number((value * 10).toFixed(8)));
    return value > 0 && tenths === 0 ? "<0.1%" : `${(tenths / 10).toFixed(1)}%`;
  }

  /** A value of a quantity that the page offers, with its unit; "unknown" for null and NaN. */
  function value(number, quantity) {
    if (number === null || Number.isNaN(number)) return "unknown";
    if (quantity === "efficiency") return percent(number);
    if (quantity === "error") return number === 0 ? "0" : number.toExponential(2);
    return significant(number) + UNITS[quantity];
  }

  /** Both ends of an interval: "11.9 to 12.4 GFLOPS"; "unknown" where one is. */
  function interval(low, high, quantity) {
    if (Number.isNaN(low) || Number.isNaN(high)) return "unknown";
    const bare = quantity in UNITS ? significant(low) : value(low, quantity);
    return `${bare} to ${value(high, quantity)}`;
  }

  return { significant, seconds, percent, value, interval };
})();
