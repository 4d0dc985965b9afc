// The shapes of a chart's lines: no more points than pixels can show. What the cursor says is never taken from these.
// They are made of the values from `first` to before `last`, of which `step` share a pixel; a value between two that are
// missing, which alone would leave no ink, becomes a dash that reaches `alone` commits to either side (0: dots show it).
"use strict";

const TrendShapes = (() => {
  /**
   * Returns the path of values, oldest first; it breaks (NaN) where one is missing. Of values that share a pixel, the
   * least and the greatest in their order: the same ink as all of them.
   */
  function path(values, { first, last, step, alone }) {
    const made = { x: [], y: [] };
    const add = (x) => { made.x.push(x); made.y.push(values[x]); };
    for (let begin = first; begin < last; begin += step) {
      const end = Math.min(begin + step, last);
      const [least, most] = extremes(values, begin, end);
      if (least === undefined) add(begin);
      else if (least === most) add(least);
      else { add(Math.min(least, most)); add(Math.max(least, most)); }
    }
    return alone > 0 ? dashed(made, alone) : made;
  }

  /** Returns a path whose points between two gaps are dashes. */
  function dashed({ x, y }, alone) {
    const made = { x: [], y: [] };
    const isGap = (index) => !(index in y) || Number.isNaN(y[index]);
    y.forEach((value, index) => {
      const isAlone = !isGap(index) && isGap(index - 1) && isGap(index + 1);
      for (const shift of isAlone ? [-alone, alone] : [0]) {
        made.x.push(x[index] + shift);
        made.y.push(value);
      }
    });
    return made;
  }

  /** Returns where the least and the greatest of some values are; nothing where all are missing. */
  function extremes(values, begin, end) {
    let least;
    let most;
    for (let x = begin; x < end; x += 1) {
      const value = values[x];
      if (Number.isNaN(value)) continue;
      if (least === undefined || value < values[least]) least = x;
      if (most === undefined || value > values[most]) most = x;
    }
    return [least, most];
  }

  /** Returns the outline of the intervals of a line, along it and back; it breaks where one is missing. */
  function band({ low, high }, { first, last, step, alone }) {
    const outline = { x: [], y: [] };
    let run = [];
    const close = () => {
      if (run.length === 1 && alone > 0) {
        const [[x, bottom, top]] = run;
        run = [[x - alone, bottom, top], [x + alone, bottom, top]];
      }
      for (const [x, , top] of run) { outline.x.push(x); outline.y.push(top); }
      for (const [x, bottom] of run.reverse()) { outline.x.push(x); outline.y.push(bottom); }
      if (run.length) { outline.x.push(NaN); outline.y.push(NaN); }
      run = [];
    };
    for (let begin = first; begin < last; begin += step) {
      const end = Math.min(begin + step, last);
      const [least] = extremes(low, begin, end);
      const [, most] = extremes(high, begin, end);
      if (least === undefined || most === undefined) close();
      else run.push([begin, low[least], high[most]]);
    }
    close();
    return outline;
  }

  return { path, band };
})();
