// The data of a series: its own file, and the newest entries, which are in a file of all series of its benchmark.
"use strict";

const Series = (() => {
  const COLUMNS = ["commit", "outcome", "seconds", "low", "high", "adjusted", "adjusted_low", "adjusted_high", "rounds", "method"];
  const known = new Map(); // name -> promise

  function joined(older, newer) {
    const made = { ...older, remarks: { ...older.remarks } };
    for (const name of COLUMNS) made[name] = older[name].concat(newer[name]);
    for (const [entry, texts] of Object.entries(newer.remarks)) made.remarks[Number(entry) + older.commit.length] = texts;
    return made;
  }

  async function read(name) {
    const older = await KV.load(name);
    if (!older.newest) throw new Error(`data/${name}.js is damaged`);
    const newest = await KV.load(older.newest);
    // The site was written again since the page was opened, and one of the files is of before
    if (newest.before !== older.before) throw new Error(`data/${name}.js is of another report than data/${older.newest}.js`);
    return newest.series[name] === undefined ? older : joined(older, newest.series[name]);
  }

  return {
    /** Returns a promise of the series of a name in data/series-index, as its file says it, with all entries. */
    load(name) {
      if (!known.has(name)) {
        const made = read(name);
        known.set(name, made);
        made.catch(() => { if (known.get(name) === made) known.delete(name); });
      }
      return known.get(name);
    },
    /** Drops a series that was loaded, for a page that keeps of it only what it needs. */
    forget(name) {
      known.delete(name);
      KV.forget(name);
    },
  };
})();
