// Data beside a page. From file:// a page may load only scripts, so each data file is a script that calls KV.put.
"use strict";

const KV = {
  entries: new Map(), // name -> {promise, resolve, reject, script, hasValue}

  /** Returns what is known of a file. */
  entryOf(name) {
    const entry = KV.entries.get(name) ?? {};
    entry.promise ??= new Promise((resolve, reject) => Object.assign(entry, { resolve, reject }));
    KV.entries.set(name, entry);
    return entry;
  },

  /** Returns a promise of a value whose file holds its gzip, `size` bytes, as letters of 15 bits (site/writer.py). */
  unpacked({ gzip, size }) {
    const bytes = new Uint8Array(size);
    for (let letter = 0, bits = 0, held = 0, at = 0; letter < gzip.length; letter += 1) {
      held = (held << 15) | (gzip.charCodeAt(letter) - 0x3400);
      for (bits += 15; bits >= 8; at += 1) bytes[at] = held >> (bits -= 8);
    }
    // Not a Blob, whose bytes come from another process: .02 s later
    return new Response(new Response(bytes).body?.pipeThrough(new DecompressionStream("gzip"))).json();
  },

  /** Stores a value. Data files call this. */
  put(name, value) {
    const entry = KV.entryOf(name);
    entry.hasValue = true;
    entry.resolve(value.gzip === undefined ? value : KV.unpacked(value));
  },

  /** Returns a promise of data/<name>. The file is loaded once, unless the page itself has it, and again after a failure. */
  load(name) {
    const entry = KV.entryOf(name);
    if (!entry.script && !entry.hasValue) {
      const fail = (reason) => {
        KV.forget(name);
        entry.reject(new Error(`data/${name}.js ${reason}`));
      };
      entry.script = document.createElement("script"); // of a page that may have no other script
      entry.script.src = `data/${encodeURIComponent(name)}.js`;
      entry.script.onerror = () => fail("cannot be loaded");
      // A truncated or empty file loads without calling put
      entry.script.onload = () => { if (!entry.hasValue) fail("is damaged"); };
      document.head.append(entry.script);
    }
    return entry.promise;
  },

  /** Frees a value. The next load() loads the file again. */
  forget(name) {
    KV.entries.get(name)?.script?.remove();
    KV.entries.delete(name);
  },
};

const TIMES = ["seconds", "low", "high", "adjusted", "adjusted_low", "adjusted_high"]; // columns of a series, s per call

/** Returns a column of runs, pairs of a value and how many entries have it, as the values. */
const spread = (runs) => runs.flatMap(([value, count]) => new Array(count).fill(value));

/** Returns the column `commit` of a file as indices of `commits`. */
function indicesOf({ last, commit }, commits) {
  if (last !== null && !commits[last[0]]?.sha.startsWith(last[1])) throw new Error("the commits are of another report than the series");
  return commit.flatMap(([first, count]) => Array.from({ length: count }, (_, number) => first + number));
}

/** Returns the columns of a file of a series (site/series_data.py): commits as indices of `commits`, times in s per call. */
function columnsOf(file, commits, isAdjusted) {
  const outcome = spread(file.outcome);
  const apart = (name, from, sign) => {
    const [ticks, per] = [file[name] ?? [], sign * file.per];
    return outcome.map((_, entry) => ((ticks[entry] ?? null) === null ? null : (from ? from[entry] : 0) + ticks[entry] / per));
  };
  const seconds = apart("seconds", null, 1);
  const adjusted = isAdjusted ? apart("adjusted", seconds, 1) : [];
  return {
    commit: indicesOf(file, commits),
    outcome, rounds: spread(file.rounds), method: spread(file.method), remarks: spread(file.remarks), seconds,
    low: apart("low", seconds, -1), high: apart("high", seconds, 1),
    ...(isAdjusted && { adjusted, adjusted_low: apart("adjusted_low", adjusted, -1), adjusted_high: apart("adjusted_high", adjusted, 1) }),
  };
}

/**
 * Returns a promise of a series by its name in data/series-index: the entries of its own file, and its newest ones, which
 * stand in one file for the whole benchmark. `remarks` are by entry, those that have some. `isAdjusted`: with adjusted times.
 */
async function loadSeries(name, isAdjusted = false) {
  const [older, { commits }] = await Promise.all([KV.load(name), KV.load("commits")]);
  if (!older.newest) throw new Error(`data/${name}.js is damaged`);
  const newest = await KV.load(older.newest);
  // The site was written again since the page was opened, and one of the two files is older
  if (newest.before !== older.before) throw new Error(`data/${name}.js is of another report than data/${older.newest}.js`);
  const parts = [older, newest.series[name]].filter(Boolean).map((file) => columnsOf(file, commits, isAdjusted));
  const series = { ...older, levels: newest.levels?.[name] ?? { within: [[]] } };
  for (const column of Object.keys(parts[0])) series[column] = [].concat(...parts.map((part) => part[column]));
  return series;
}
