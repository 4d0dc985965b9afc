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

/** The same for an option, which holds no element. */
const isolated = (text) => `\u2068${text}\u2069`;

/** Fills a select with [value, text] pairs, and chooses a value, or the first one. */
function fill(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => make("option", { value: key }, text)));
  offer(select, value);
}

/** Chooses a value of a select, or where it has none such `usual`, or the first one; returns whether it has the value. */
function offer(select, value, usual = select.options[0]?.value ?? "") {
  const isOffered = [...select.options].some((option) => option.value === value);
  select.value = isOffered ? value : usual;
  return isOffered;
}

const commitLink = (commit) => make("a", { class: "sha", href: commit.page }, commit.sha.slice(0, 8));

/** Returns a table; cells are texts or elements, and the first cell of a row is its head. */
function table(heads, rows) {
  const cell = (content, index) => (index === 0 ? make("th", { scope: "row" }, content) : make("td", { class: "value" }, content));
  return make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map(cell)))));
}

/** Returns the cell of a value, with details below, texts or elements; what is empty is left out. */
function valueCell(tone, text, details = []) {
  return make("td", { class: `value ${tone}` }, ...(text ? [span("text", text)] : []),
    ...details.filter(Boolean).map((detail) => (typeof detail === "string" ? span("detail", detail) : detail)));
}

/** Returns a commit's hash, which links to its page, its message, author and date. */
function commitHead(commit) {
  const when = commit.date.slice(0, 16).replace("T", " ");
  return [commitLink(commit), " ", span("subject", foreign(commit.subject || "(no message)")), " ", span("who", foreign(`${commit.author}, ${when}`))];
}

const messageOf = (error) => (error instanceof Error ? error.message : String(error));

// ---- the reader's choice, in the hash of the address: it survives a reload and can be shared ------------------------

const Address = {
  read: () => new URLSearchParams(window.location.hash.slice(1)),

  /** Puts URLSearchParams into the address; `isStep` adds an entry to the history. */
  write(query, isStep = false) {
    const hash = query.toString();
    // not location.hash: setting it to "" scrolls to the top, and fires hashchange
    window.history[isStep ? "pushState" : "replaceState"](null, "", hash ? `#${hash}` : window.location.pathname + window.location.search);
  },

  /** Returns a sentence about what the address names and the page lacks, given as [kind, name]; "" for none. */
  missed(gone) {
    const names = new Set(gone.map(([kind, name]) => `${kind} “${isolated(name)}”`));
    return gone.length ? `Not here, so something else is shown: ${[...names].join(", ")}.` : "";
  },
};

// The skip link would put its target in place of the choice
document.querySelector("a.skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});

// ---- copying: `<button data-copy="ID">` copies the text of the element ID -------------------------------------------

for (const button of document.querySelectorAll("button[data-copy]")) {
  const [text, usual] = [document.getElementById(button.dataset.copy), button.textContent];
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "copied";
    } catch { // without HTTPS a page may have no clipboard
      window.getSelection()?.selectAllChildren(text);
      button.textContent = "selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = usual; }, 2000);
  });
}

// ---- a provisional page renews itself as long as the run that wrote it may go on ------------------------------------

const RENEWED = 20_000; // ms
const unfinished = document.getElementById("unfinished");
const renewal = unfinished?.querySelector("span");
if (unfinished && renewal) {
  if (Date.now() < 1000 * Number(unfinished.dataset.until)) setTimeout(() => location.reload(), RENEWED);
  else renewal.textContent = "The run that wrote this page was ended, or takes longer than it expected: `kv report` writes the page anew.";
}
