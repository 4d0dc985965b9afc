// From the data files of a kernel's series to the columns of its chart: joined by commit, and converted to the unit
// that the reader chose. All amounts come with the data (site/pages/kernel_chart.py); only they are applied here.
"use strict";

const KernelColumns = (() => {
  const MISSING = -1;

  /** Returns the commits' places in data/commits by full SHA. */
  function places(commits) {
    return new Map(commits.map((commit, index) => [commit.sha, index]));
  }

  /**
   * Returns the horizontal axis of some series: the commits at which one of them was more than n/a, as places in
   * data/commits, ascending.
   */
  function axis(loaded, order) {
    const asked = new Uint8Array(order.size);
    for (const { columns } of loaded) {
      columns.commit.forEach((sha, index) => {
        if (columns.outcome[index] !== "n/a" && order.has(sha)) asked[order.get(sha)] = 1;
      });
    }
    const found = [];
    asked.forEach((is, place) => { if (is) found.push(place); });
    return Int32Array.from(found);
  }

  /** Returns for each commit of an axis the entry of a data file that it has there, or MISSING. */
  function entries(commit, order, ranks) {
    const found = new Int32Array(ranks.count).fill(MISSING);
    commit.forEach((sha, index) => {
      const rank = ranks.of[order.get(sha)];
      if (rank !== undefined && rank !== MISSING) found[rank] = index;
    });
    return found;
  }

  /** Returns the x of every place of data/commits that is on an axis. */
  function ranks(shown, count) {
    const of = new Int32Array(count).fill(MISSING);
    shown.forEach((place, x) => { of[place] = x; });
    return { of, count: shown.length };
  }

  /** Returns the first x that is not before a place of data/commits; the length of the axis past its end. */
  function xOf(shown, place) {
    let low = 0;
    let high = shown.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (shown[middle] < place) low = middle + 1; else high = middle;
    }
    return low;
  }

  function bounded(value, rule) {
    return Math.min(Math.max(value, rule.least ?? -Infinity), rule.most ?? Infinity);
  }

  /** Returns value and interval of a time with its interval, null where unknown, as a rule of the data converts it. */
  function convert(rule, seconds, low, high) {
    if (seconds === null) return [NaN, NaN, NaN];
    const [first, last] = low === null || high === null ? [NaN, NaN] : [low, high];
    if (rule.times !== undefined) return [rule.times * seconds, rule.times * first, rule.times * last];
    return [rule.per / seconds, rule.per / last, rule.per / first].map((value) => bounded(value, rule));
  }

  /** Returns the values of a series along an axis: x, y, low, high, and the entry of each in the series' columns. */
  function line(series, rule, order, rank) {
    const { columns } = series;
    const at = entries(columns.commit, order, rank);
    const made = { at, y: new Float64Array(rank.count), low: new Float64Array(rank.count), high: new Float64Array(rank.count) };
    for (const name of ["y", "low", "high"]) made[name].fill(NaN);
    if (rule === undefined) return made;
    const apart = new Set(rule.apart);
    const beside = series.beside && entries(series.beside.commit, order, rank);
    for (let x = 0; x < rank.count; x += 1) {
      const entry = at[x];
      if (series.beside) {
        if (beside[x] !== MISSING) made.y[x] = joined(series, rule, entry, beside[x]);
      } else if (entry !== MISSING && !apart.has(columns.commit[entry])) {
        [made.y[x], made.low[x], made.high[x]] = convert(rule, columns.seconds[entry], columns.low[entry], columns.high[entry]);
      }
    }
    return made;
  }

  /** Returns what two data files give together at one commit: a value of its own, or a ratio of two times. */
  function joined(series, rule, entry, other) {
    if (rule.own !== undefined) return series.beside.value[other];
    const own = entry === MISSING ? null : series.columns.seconds[entry];
    const time = series.beside.seconds[other];
    if (own === null || time === null) return NaN;
    return rule.over !== undefined ? time / own : own / time;
  }

  /** Returns a promise of the data that a rule needs besides the series' own: another series, errors; undefined for none. */
  async function beside(rule) {
    const other = rule?.over ?? rule?.under;
    if (other !== undefined) return Series.load(other);
    return rule?.own === undefined ? undefined : KV.load(rule.own);
  }

  const side = (columns, entry) => ({
    seconds: columns.seconds[entry], low: columns.low[entry], high: columns.high[entry], method: columns.method[entry],
    adjusted: columns.adjusted[entry], adjustedLow: columns.adjusted_low[entry], adjustedHigh: columns.adjusted_high[entry],
  });

  /**
   * Returns the change of an entry against the newest one before it that it can be compared with, in words and as a tone
   * (series/changes.py, site/text.py); undefined where there is none.
   */
  function change(columns, entry) {
    if (columns.outcome[entry] !== "measured") return undefined;
    const own = side(columns, entry);
    for (let before = entry - 1; before >= 0; before -= 1) {
      const found = Ratios.compare(side(columns, before), own, true);
      if (found.ratio === undefined) continue;
      const sure = found.confirmed || found.ratio === 1;
      const text = `${sure ? "" : "≈ "}${Numbers.change(found.ratio)}${found.adjusted ? ", adjusted" : ""}`;
      const tone = found.ratio > 1 ? "faster" : "slower";
      return { text, tone: found.confirmed && found.ratio !== 1 ? tone : "same" };
    }
    return undefined;
  }

  /** Returns whether a rule converts a time alone, so that its rounds, changes and roof are those of what is shown. */
  function isOfTime(rule) {
    return rule !== undefined && (rule.per !== undefined || rule.times !== undefined);
  }

  return { MISSING, places, axis, ranks, xOf, line, beside, change, isOfTime, convert };
})();
