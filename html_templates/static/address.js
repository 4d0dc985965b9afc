// What a reader chose, in the hash of the address: it survives a reload, and a link to it shows the same.
"use strict";

const Address = (() => {
  const bare = () => window.location.pathname + window.location.search;
  let chosen = isChoice(window.location.hash) ? window.location.hash : ""; // what the address said of a choice last

  /** Returns whether a hash is a choice, and no place on the page, such as #main of the skip link. */
  function isChoice(hash) {
    return hash.length < 2 || hash.includes("=");
  }

  /** Returns what the address says. */
  function read() {
    return new URLSearchParams(window.location.hash.slice(1));
  }

  /** Has the address say something else, URLSearchParams; `isStep`: the reader's way back leads to what it said before. */
  function write(said, isStep = false) {
    const hash = said.toString();
    // not location.hash: emptying it would scroll to the top, and the page would follow what it has just written
    window.history[isStep ? "pushState" : "replaceState"](null, "", hash ? `#${hash}` : bare());
    chosen = window.location.hash;
  }

  /** Sets a select, or another field, to a value where it can have that; else to what is usual. */
  function set(field, wanted, usual) {
    field.value = wanted ?? usual;
    if (field.value !== wanted) field.value = usual;
  }

  /** Returns what to say of what an address names and the page does not have, each [what, name]; "" of nothing. */
  function missed(gone) {
    const named = new Set(gone.map(([what, name]) => `${what} “\u2068${name}\u2069”`)); // isolated: its letters turn no others around
    return gone.length ? `Not here, so something else is shown: ${[...named].join(", ")}.` : "";
  }

  /** Has a line say what an address names and the page does not have; hidden where that is nothing. */
  function tell(line, gone) {
    line.textContent = missed(gone);
    line.hidden = gone.length === 0;
  }

  /**
   * Lets a page hear of choices only: a way to a place on the page leaves what is chosen, and the address says that
   * again. Where the choice hides the place, the choice is given up.
   */
  function moved(event) {
    const hash = event.newURL === undefined ? window.location.hash : new URL(event.newURL).hash;
    if (isChoice(hash)) {
      chosen = window.location.hash;
      return;
    }
    const place = document.getElementById(hash.slice(1));
    const isHidden = Boolean(place?.closest("[hidden]"));
    if (isHidden) chosen = "";
    window.history.replaceState(null, "", chosen || bare());
    if (isHidden) window.requestAnimationFrame(() => place.scrollIntoView());
    else event.stopImmediatePropagation();
  }

  // Before any listener of a page, which loads this file first
  for (const name of ["popstate", "hashchange"]) window.addEventListener(name, moved);

  return { read, write, set, missed, tell };
})();
