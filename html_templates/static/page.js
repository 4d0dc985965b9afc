// What all pages share: elements, the reader's choice in the address, and copying.
"use strict";

// ---- elements: strings become text, never HTML ----------------------------------------------------------------------

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const span = (className, ...children) => make("span", { class: className }, ...children);

/** Returns recorded text, isolated so that its writing direction does not affect the text around it. */
const foreign = (text) => make("bdi", {}, text);

const commitLink = (commit) => make("a", { class: "sha", href: commit.page }, commit.sha.slice(0, 8));

/** Returns the boxes of the implementations in a part of the page, and the names of those that are checked. */
const boxesOf = (part) => [...part.querySelectorAll("input[name=implementation]")];
const checkedIn = (part) => boxesOf(part).filter((box) => box.checked).map((box) => box.value);

/** Returns a table; cells are texts or elements, and the first cell of a row is its head. */
function table(heads, rows) {
  const cell = (content, index) => (index === 0 ? make("th", { scope: "row" }, content) : make("td", { class: "value" }, content));
  return make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map(cell)))));
}

/** Returns the cell of a value: parts, the numbers of its footnotes, and details below, texts or elements; "" is left out. */
function valueCell(tone, parts, marks = [], details = []) {
  return make("td", { class: `value ${tone}` }, ...parts, ...(marks.length ? [make("sup", { class: "marks" }, marks.join(", "))] : []),
    ...details.filter(Boolean).map((detail) => (typeof detail === "string" ? span("detail", detail) : detail)));
}

// ---- the reader's choice, in the hash of the address: it survives a reload and can be shared ------------------------

const Address = (() => {
  const bare = () => window.location.pathname + window.location.search;
  const isChoice = (hash) => hash.length < 2 || hash.includes("="); // else an anchor, such as #main of the skip link
  let latest = isChoice(window.location.hash) ? window.location.hash : ""; // choice

  const read = () => new URLSearchParams(window.location.hash.slice(1));

  /** Puts URLSearchParams into the address; `isStep` adds an entry to the history. */
  function write(query, isStep = false) {
    const hash = query.toString();
    // not location.hash: setting it to "" scrolls to the top, and fires hashchange
    window.history[isStep ? "pushState" : "replaceState"](null, "", hash ? `#${hash}` : bare());
    latest = window.location.hash;
  }

  /** Sets a field to a value that it offers, else to its default. */
  function set(field, wanted, usual) {
    field.value = wanted ?? usual;
    if (field.value !== wanted) field.value = usual;
  }

  /** Returns a sentence about what the address names and the page lacks, given as [kind, name]; "" for none. */
  function missed(gone) {
    const names = new Set(gone.map(([kind, name]) => `${kind} “\u2068${name}\u2069”`)); // direction isolated
    return gone.length ? `Not here, so something else is shown: ${[...names].join(", ")}.` : "";
  }

  /** Keeps the choice in the address when the reader follows an anchor. The choice is dropped if it hides the target. */
  function moved(event) {
    const hash = event.newURL === undefined ? window.location.hash : new URL(event.newURL).hash;
    if (isChoice(hash)) {
      latest = window.location.hash;
      return;
    }
    const target = document.getElementById(hash.slice(1));
    const isHidden = Boolean(target?.closest("[hidden]"));
    if (isHidden) latest = "";
    window.history.replaceState(null, "", latest || bare());
    if (isHidden) window.requestAnimationFrame(() => target.scrollIntoView());
    else event.stopImmediatePropagation();
  }

  // Before any listener of a page, which loads this file first
  for (const name of ["popstate", "hashchange"]) window.addEventListener(name, moved);

  return { read, write, set, missed };
})();

// ---- copying: `<button data-copy="ID">` copies the text of the element ID -------------------------------------------

/** Copies a text; returns whether that worked. Without HTTPS a page may have no clipboard. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make("textarea", { style: "position: fixed; opacity: 0" });
    field.value = text;
    document.body.append(field);
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    return isCopied;
  }
}

/** Copies a text and shows the result on the button for 2 s. */
async function copyAndSay(button, text) {
  button.dataset.usual ??= button.textContent;
  button.textContent = (await copyText(text)) ? "copied" : "not allowed here: select it";
  setTimeout(() => { button.textContent = button.dataset.usual; }, 2000);
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", () => copyAndSay(button, document.getElementById(button.dataset.copy).textContent));
}

// ---- how long ago: the page may have been written long before it is read -----------------------------------------------

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const AGES = [["day", 86400], ["hour", 3600], ["minute", 60]];

for (const time of document.querySelectorAll("time[datetime]")) {
  const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
  const age = AGES.find(([, size]) => seconds >= size);
  if (age) time.append(span("age", ` (${new Intl.RelativeTimeFormat("en").format(-Math.floor(seconds / age[1]), age[0]).replaceAll(",", "")})`));
}
