// What a reader chose, in the hash of the address: it survives a reload, and a link to it shows the same.
"use strict";

const Address = (() => {
  /** Returns what the address says. */
  function read() {
    return new URLSearchParams(window.location.hash.slice(1));
  }

  /** Has the address say something else, URLSearchParams; `isStep`: the reader's way back leads to what it said before. */
  function write(said, isStep = false) {
    const hash = said.toString();
    // not location.hash: emptying it would scroll to the top, and the page would follow what it has just written
    const address = hash ? `#${hash}` : window.location.pathname + window.location.search;
    window.history[isStep ? "pushState" : "replaceState"](null, "", address);
  }

  /** Sets a select, or another field, to a value where it can have that; else to what is usual. */
  function set(field, wanted, usual) {
    field.value = wanted ?? usual;
    if (field.value !== wanted) field.value = usual;
  }

  return { read, write, set };
})();
