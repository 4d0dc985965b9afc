// Data beside a page. From file:// a page may load scripts and nothing else, so each data file is a script that calls
// KV.put; data/<name>.json holds the same for other tools.
"use strict";

const KV = (() => {
  const waiting = new Map(); // name -> {promise, resolve, reject, script}

  function entry(name) {
    if (!waiting.has(name)) {
      const made = {};
      made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
      waiting.set(name, made);
    }
    return waiting.get(name);
  }

  return {
    /** Called by a data file. */
    put(name, value) {
      const made = entry(name);
      made.isThere = true;
      made.resolve(value);
    },
    /** Returns a promise of data/<name>; it is loaded once, and again where that failed. */
    load(name) {
      const made = entry(name);
      if (!made.script) {
        made.script = document.createElement("script");
        made.script.src = `data/${encodeURIComponent(name)}.js`;
        const fail = (why) => {
          if (waiting.get(name) === made) waiting.delete(name);
          made.script.remove();
          made.reject(new Error(`data/${name}.js ${why}`));
        };
        made.script.onerror = () => fail("cannot be loaded");
        // A file that is cut off, or empty, loads without a call of put
        made.script.onload = () => { if (!made.isThere) fail("is damaged"); };
        document.head.append(made.script);
      }
      return made.promise;
    },
    /** Drops what was loaded, for a page that keeps of it only what it needs; load() loads it again. */
    forget(name) {
      waiting.get(name)?.script?.remove();
      waiting.delete(name);
    },
  };
})();
