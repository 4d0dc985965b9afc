// The data of a kernel's chart: series joined by commit, and times converted to the quantity that the reader chose, by the
// rules that come with the data (site/pages/kernel_chart.py). A rule has one of: per, times (of a time), over, under
// (another series), own (values of a data file).
"use strict";

const MISSING = -1;

/** Returns whether a rule converts a time alone. Only then do rounds, changes and roof belong to the value shown. */
const isOfTime = (rule) => rule !== undefined && (rule.per !== undefined || rule.times !== undefined);

/** Returns a promise of what a rule needs besides the series itself: another series, errors, or undefined. */
function loadBeside(rule) {
  const other = rule?.over ?? rule?.under;
  if (other !== undefined) return loadSeries(other);
  return rule?.own === undefined ? undefined : KV.load(rule.own);
}

/**
 * Returns the horizontal axis of some series: `commits`, the indices in data/commits at which one of them was more than
 * n/a, and for every index of data/commits `firstX`, the first x at or after it. `order`: SHA -> index.
 */
function axisOf(loaded, order) {
  const isUsed = new Uint8Array(order.size);
  for (const { columns } of loaded) {
    columns.commit.forEach((sha, entry) => {
      if (columns.outcome[entry] !== "n/a" && order.has(sha)) isUsed[order.get(sha)] = 1;
    });
  }
  const commits = [];
  const firstX = Int32Array.from(isUsed, (used, index) => (used ? commits.push(index) - 1 : commits.length));
  return { commits, firstX };
}

/** Returns for each commit of an axis the entry of a data file, or MISSING; `shas` are the commits of the entries. */
function entriesOf(shas, order, { commits, firstX }) {
  const entries = new Int32Array(commits.length).fill(MISSING);
  shas.forEach((sha, entry) => {
    const index = order.get(sha);
    if (index !== undefined && commits[firstX[index]] === index) entries[firstX[index]] = entry;
  });
  return entries;
}

/** Returns [value, low, high] of a time with its interval, s, null where unknown; NaN for unknown. */
function convert(rule, seconds, low, high) {
  if (seconds === null) return [NaN, NaN, NaN];
  const [first, last] = low === null || high === null ? [NaN, NaN] : [low, high];
  if (rule.times !== undefined) return [rule.times * seconds, rule.times * first, rule.times * last];
  const bounded = (value) => Math.min(Math.max(value, rule.least ?? -Infinity), rule.most ?? Infinity);
  return [rule.per / seconds, rule.per / last, rule.per / first].map(bounded);
}

/** Returns the values of a series along an axis: y, low, high, and `at`, the entry of each in the series' columns. */
function lineOf({ columns, rule, beside }, order, axis) {
  const at = entriesOf(columns.commit, order, axis);
  const [y, low, high] = [0, 1, 2].map(() => new Float64Array(at.length).fill(NaN));
  const otherAt = beside && entriesOf(beside.commit, order, axis);
  const apart = new Set(rule?.apart); // commits that the rule does not hold for
  at.forEach((entry, x) => {
    if (rule === undefined) return;
    if (beside) {
      if (otherAt[x] !== MISSING) y[x] = joined(rule, columns.seconds[entry] ?? null, beside, otherAt[x]);
    } else if (entry !== MISSING && !apart.has(columns.commit[entry])) {
      [y[x], low[x], high[x]] = convert(rule, columns.seconds[entry], columns.low[entry], columns.high[entry]);
    }
  });
  return { at, y, low, high };
}

/** Returns the other file's own value, or the ratio of its time to the series' time, s. */
function joined(rule, seconds, beside, entry) {
  if (rule.own !== undefined) return beside.value[entry];
  const other = beside.seconds[entry];
  if (seconds === null || other === null) return NaN;
  return rule.over !== undefined ? other / seconds : seconds / other;
}

/**
 * Returns the change of an entry against the newest comparable entry before it, as {text, tone}; undefined if there is
 * none (series/changes.py, site/text.py).
 */
function changeAt(columns, entry) {
  if (columns.outcome[entry] !== "measured") return undefined;
  const side = (at) => ({
    seconds: columns.seconds[at], low: columns.low[at], high: columns.high[at], method: columns.method[at],
    adjusted: columns.adjusted[at], adjustedLow: columns.adjusted_low[at], adjustedHigh: columns.adjusted_high[at],
  });
  for (let before = entry - 1; before >= 0; before -= 1) {
    const change = Ratios.compare(side(before), side(entry), true);
    if (change.ratio !== undefined) return { text: `${Ratios.words(change)}${change.adjusted ? ", adjusted" : ""}`, tone: Ratios.tone(change) };
  }
  return undefined;
}
