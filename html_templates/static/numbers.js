// Numbers as text, as units.py writes them, and what a series did between two of its entries, as verdict/verdicts.py has
// it. The browser's tests hold both against Python's.
"use strict";

const Numbers = (() => {
  /** @type {[string, number][]} */
  const TIMES = [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3], ["s", 1]];
  /** @type {[string, number][]} */
  const PREFIXES = [["k", 1e-6], ["M", 1e-3], ["G", 1], ["T", 1e3]]; // of rates, 10^9 a second
  const RATES = ["GFLOPS", "GOPS", "GB/s"];
  /** @type {[string, number][]} */
  const SIZES = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["bytes", 1]];
  const WORDS = { seconds: ["faster", "slower"], bytes: ["smaller", "larger"] };

  /** Returns a number's digits, grouped by three before the point. Note: tried Intl, whose first call takes .015 s. */
  function grouped(digits) {
    const [whole, ...decimals] = digits.split(".");
    return [whole.replace(/\B(?=(\d{3})+$)/g, ","), ...decimals].join(".");
  }

  /** Returns a value with three significant digits, and all digits before the point. */
  function significant(value) {
    if (value === 0) return "0";
    const exponent = Number(value.toExponential(2).split("e")[1]);
    return grouped(value.toFixed(Math.min(Math.max(2 - exponent, 0), 100)));
  }

  /** Returns the unit that leaves 1 to 999 of a time, s, or a rate before the point, and how many of its own unit that is. */
  function readable(value, ofUnit) {
    const scales = ofUnit === "s" ? TIMES : RATES.includes(ofUnit) ? PREFIXES : [[ofUnit, 1]];
    const [name, size] = scales.find(([, scale]) => Number((value / scale).toPrecision(3)) < 1000) ?? scales[scales.length - 1];
    return [scales === PREFIXES ? name + ofUnit.slice(1) : name, size];
  }

  const seconds = (number) => value(number, "s");

  /** Returns a fraction in percent: never rounded to the whole. */
  function share(fraction) {
    const percent = 100 * fraction;
    if (percent > 0 && percent < 0.05) return "<0.1%";
    if (percent >= 99.95 && percent < 100) return ">99.9%";
    return percent > 100 && percent < 100.05 ? ">100.0%" : `${percent.toFixed(1)}%`;
  }

  const MULTIPLE_FROM = 2; // a change from here on reads better as a multiple, as in units.py

  /** Returns whether a ratio of values, old / new, reads best as a multiple: not that of a rate that fell. */
  const isMultiple = (ratio, ofUnit = "seconds") => 1 / ratio >= MULTIPLE_FROM || (ratio >= MULTIPLE_FROM && ofUnit in WORDS);

  /** Returns a ratio of values, old / new, in words: "3.2% faster", "2.10× slower", "50.0% lower". Percentages are of the value. */
  function change(ratio, ofUnit = "seconds") {
    if (ratio === 1) return "unchanged";
    const factor = Math.max(ratio, 1 / ratio);
    const [less, more] = WORDS[ofUnit] ?? ["lower", "higher"];
    return `${isMultiple(ratio, ofUnit) ? `${significant(factor)}×` : share(Math.abs(1 / ratio - 1))} ${ratio > 1 ? less : more}`;
  }

  /** Returns a value in a unit as asv writes it: "1.23 ms" of "seconds", "12.3 MB" of "bytes". */
  function inUnit(value, ofUnit = "seconds") {
    if (ofUnit === "seconds" && value >= 1e-12 && value <= 1e11) return seconds(value); // as in bounds.py
    const [name, scale] = (ofUnit === "bytes" && SIZES.find(([, size]) => value >= 0.9995 * size)) || [ofUnit, 1];
    const scaled = value / scale;
    const isPlain = value === 0 || (Math.abs(scaled) >= 1e-6 && Math.abs(scaled) < 1e15);
    return `${isPlain ? significant(scaled) : scaled.toExponential(2)} ${name}`.trimEnd();
  }

  /** Returns a value of a quantity in its unit. An efficiency, %, is rounded down; an error, which has no unit, has an exponent. */
  function value(number, ofUnit) {
    if (number === null) return "unknown";
    if (ofUnit === "%") return number > 0 && number < 0.1 ? "<0.1%" : `${(Math.floor(10 * number + 1e-9) / 10).toFixed(1)}%`;
    if (ofUnit === undefined) return number === 0 ? "0" : number.toExponential(2);
    const [name, size] = readable(number, ofUnit);
    return `${significant(number / size)}${name === "×" ? "" : " "}${name}`.trimEnd();
  }

  /** Returns at most `count` round numbers between two bounds, or one more, 1, 2 or 5 times a power of ten apart. */
  function ticks(low, high, count) {
    const power = 10 ** Math.floor(Math.log10((high - low) / count));
    const step = power * ([1, 2, 5].find((factor) => factor * power * count >= (high - low) * (1 - 1e-9)) ?? 10);
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, index) => (first + index) * step);
  }

  return {
    isMultiple, ticks, significant, readable, seconds, share, change, inUnit, value,
    count: (number) => grouped(String(number)),
    tick: (number) => (Math.abs(number) < 1e-4 && number !== 0
      ? number.toExponential(0) : grouped(String(Number(number.toPrecision(5))))).replace("-", "−"),
    /** Returns an interval: "11.9 to 12.4 GFLOPS". */
    interval: (low, high, ofUnit) => `${ofUnit === "%" ? value(low, "%") : significant(low / readable(high, ofUnit)[1])} to ${value(high, ofUnit)}`,
    /** Returns a relative difference: "+3.00%". */
    difference: (fraction) => (fraction === 0 ? "0%" : `${fraction < 0 ? "−" : "+"}${significant(Math.abs(100 * fraction))}%`),
  };
})();

const Verdicts = {
  MIN_EFFECT: Math.log(1.01),
  MOST_WITHIN: 0.5,
  REACH: 100,
  CONSTANT: 3,

  /**
   * Returns what a series did from one entry to another: {word, ratio, low, high, within, causes, ends}. Ratios are of
   * values, new / old; `causes` are the possible ones of its steps; `ends` are both values where one is 0, without a ratio.
   * `levels` are those of its file; `seconds` its times, null where there is none.
   */
  between({ steps = [], causes = [], doubt = null, within, visits = [], better }, seconds, from, to) {
    const [old, now] = from < to ? [from, to] : [to, from];
    const isPassed = (step) => step !== undefined && old < step[0] && step[0] <= now;
    const [passed, counted] = [steps.filter(isPassed), [...steps.keys()].filter((at) => isPassed(steps[at]) && steps[at][4])];
    const edges = [0, ...steps.map(([entry]) => entry), seconds.length];
    const timed = (start, end) => seconds.slice(start, end).filter((value) => value !== null).length;
    const { effect, half, ends } = Verdicts.rest(steps, counted, (level) => Math.max(timed(edges[level], edges[level + 1]), 1));
    const verdict = { ratio: 1, low: null, high: null, within: null, causes: [], ends: null };
    const isSure = counted.length === 1 || Math.abs(effect) >= half;
    if (Math.abs(effect) >= Verdicts.MIN_EFFECT && isSure) {
      const sign = from < to ? 1 : -1;
      const changed = { ...verdict, word: Verdicts.wordOf(sign * effect, better), causes: causes.filter((_, at) => counted.includes(at)) };
      if (ends !== null) return { ...changed, ratio: null, ends: from < to ? ends : ends.toReversed() };
      const [ratio, low, high] = [0, -half, half].map((side) => Math.exp(sign * effect + side));
      return { ...changed, ratio, low, high };
    }
    const zeros = [seconds[old], seconds[now]].filter((value) => value === 0).length;
    if (zeros > 0) {
      const last = seconds.slice(0, now + 1).filter((value) => value !== null).slice(-Verdicts.CONSTANT);
      const isConstant = last.length === Verdicts.CONSTANT && last.every((value) => value === 0)
        && (counted.length > 0 || !seconds.slice(old, now + 1).some(Boolean));
      return { ...verdict, word: zeros === 2 && isConstant ? "unchanged" : "undecided" };
    }
    const leastAt = (entry, sizeIn) => {
      const level = steps.filter(([start]) => start <= entry).length;
      const sizes = within[level];
      return sizes[Math.max(Math.min(sizeIn(edges[level], edges[level + 1]), sizes.length), 1) - 1];
    };
    const visited = visits.filter(([entry]) => entry === old || entry === now).map(([, most]) => most);
    const least = Math.max(leastAt(old, (start) => timed(start, old + 1)), leastAt(now, (_, end) => timed(now, end)),
      ...visited, counted.length ? Math.expm1(Math.abs(effect) + half) : 0); // NaN where nothing tells
    const isOpen = (doubt !== null && old < doubt && doubt <= now) || passed.length > counted.length || !(least <= Verdicts.MOST_WITHIN);
    return { ...verdict, word: isOpen ? "undecided" : "unchanged", within: isOpen ? null : least };
  },

  /** Returns what steps leave together, log units, half its interval, and both levels where one is 0 (verdict/events.py). */
  rest(steps, numbers, sizeOf) {
    if (numbers.some((at) => steps[at][1] === null)) {
      const [before, after] = [steps[numbers[0]][5][0], steps[numbers[numbers.length - 1]][5][1]];
      const effect = before === after ? 0 : Math.log(after) - Math.log(before);
      return { effect, half: 0, ends: Math.min(before, after) === 0 ? [before, after] : null };
    }
    const shares = numbers.map((at) => {
      const [older, newer] = [at, at + 1].map((level) => Math.min(sizeOf(level), Verdicts.REACH));
      const whole = (Math.log(steps[at][3] / steps[at][2]) / 2) ** 2 / (older + newer);
      return (numbers.includes(at - 1) ? 0 : whole * newer) + (numbers.includes(at + 1) ? 0 : whole * older);
    });
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    return { effect: sum(numbers.map((at) => Math.log(steps[at][1]))), half: Math.sqrt(sum(shares)), ends: null };
  },

  /** Returns why two values have no ratio; null where they have one, "" where nothing has to be said. */
  lacking(a, b) {
    if (a.seconds === null || b.seconds === null || Math.min(a.seconds, b.seconds) < 0) return "";
    if (a.method !== null && b.method !== null && a.method !== b.method) return "timed by another method";
    return a.version === b.version ? null : "another version of the benchmark";
  },
  /** Returns the word for a change of the logarithm of a value of a series, of which the `better` values are. */
  wordOf(effect, better = "lower") {
    if (better === "neither") return effect > 0 ? "higher" : "lower";
    return (effect > 0) === (better === "lower") ? "slower" : "faster";
  },
  isChange: ({ word }) => ["slower", "faster", "higher", "lower"].includes(word),
  /** Returns how a verdict is coloured. Where neither direction is better, a change has no colour. */
  tone: ({ word = "" }) => (["higher", "lower"].includes(word) ? "same" : word),
  words: ({ word, ratio, ends }, unit) => (ends ? ends.map((end) => (end === 0 ? "0" : Numbers.inUnit(end, unit))).join(" to ")
    : Verdicts.isChange({ word }) ? Numbers.change(1 / ratio, unit) : word),
};
