// The tables of a kernel's page: the commits that the page leaves out, and older sources.
"use strict";

const FIRST = 50; // commits of a test case before the reader asks for more
const BATCH = 400; // rows added at a time: the page stays responsive while ten thousand are made

const newestFirst = (model) => Array.from(model.commits.keys()).reverse(); // x

// ---- the table of a test case ---------------------------------------------------------------------------------------

/** Adds commits to the table of a choice where the page leaves some out, and a button that adds all others. */
function completeTable(choice, model) {
  const parts = Array.from(document.querySelectorAll(".behind")).find((part) => part.dataset.group === choice.anchor);
  const card = Array.from(parts?.querySelectorAll(".case") ?? []).find((part) => part.dataset.case === choice.case);
  const button = card?.querySelector(".more");
  if (!button) return;
  const body = card.querySelector("tbody");
  body.append(...rowsOf(card, model, lacking(card, model).slice(0, Math.max(FIRST - body.rows.length, 0))));
  const further = card.querySelector(".further");
  const left = lacking(card, model).length;
  if (left === 0) return void further.remove();
  further.querySelector(".count").textContent = `the newest ${Numbers.count(body.rows.length)} of ${Numbers.count(body.rows.length + left)} commits`;
  button.hidden = false;
  button.onclick = async () => {
    button.disabled = true;
    await addAll(card, model, (done, whole) => { button.textContent = `${Numbers.count(done)} of ${Numbers.count(whole)} added`; });
    further.remove();
  };
}

/** Returns the x of the commits that a table lacks, newest first. */
function lacking(card, model) {
  const present = new Set(Array.from(card.querySelectorAll("tbody a.sha"), (link) => link.getAttribute("href")));
  return newestFirst(model).filter((x) => !present.has(model.commits[x].page));
}

function rowsOf(card, model, xs) {
  const notes = new Map(Array.from(card.closest(".behind").querySelectorAll(".footnotes li"), (note, index) => [note.textContent, index + 1]));
  const lines = Array.from(card.querySelectorAll("thead th bdi"), (head) => model.lines.find((line) => (line.name || "value") === head.textContent));
  return xs.map((x) => make("tr", {},
    make("th", { class: "commit", scope: "row" }, ...commitHead(model.commits[x])),
    ...lines.map((line) => cellOf(line?.series.columns, line?.at[x] ?? MISSING, notes))));
}

/** Returns the cell of an entry; `notes`: footnote -> number. Remarks without a footnote stand in the cell. */
function cellOf(columns, entry, notes) {
  if (entry === MISSING) return valueCell("absent", [span("text", "–")]);
  const outcome = columns.outcome[entry];
  const isMeasured = outcome === "measured";
  const remarks = (columns.remarks[entry] ?? []).map((text, index) => {
    const note = isMeasured || index > 0 ? text : `${outcome}: ${text}`; // the first says why there is no time
    return { text, number: notes.get(note) };
  });
  const numbers = remarks.flatMap(({ number }) => number ?? []).sort((a, b) => a - b);
  const unnumbered = remarks.filter(({ number }) => number === undefined).map(({ text }) => text).join("; ");
  const change = changeAt(columns, entry);
  const [value, detail] = isMeasured ? valueTexts(columns, entry) : [outcome, ""];
  return valueCell(isMeasured ? change?.tone ?? "" : outcome, [span("text", value)], numbers,
    [change && span("change", change.text), detail, unnumbered && span("detail remarks", foreign(unnumbered))]);
}

/** Returns a measured value as a rate, or as a time where the FLOPs are unknown, and its interval (site/text.py). */
function valueTexts({ flop, operation, unit, seconds, low, high }, entry) {
  const time = Numbers.inUnit(seconds[entry], unit);
  const isKnown = low[entry] !== null && high[entry] !== null;
  if (flop === null) return [time, isKnown ? `${Numbers.inUnit(low[entry], unit)} to ${Numbers.inUnit(high[entry], unit)}` : ""];
  const rate = (value) => flop / value / 1e9;
  const interval = isKnown ? `${Numbers.interval(rate(high[entry]), rate(low[entry]), "GFLOPS", Numbers.rateUnit(operation))} · ` : "";
  return [Numbers.rate(rate(seconds[entry]), operation), `${interval}${time}`];
}

/** Adds all commits that a table lacks; `progress` gets how many of how many were added. */
async function addAll(card, model, progress) {
  const whole = card.querySelector("table");
  const missing = lacking(card, model);
  const height = fixWidths(whole);
  for (let first = 0; first < missing.length; first += BATCH) {
    progress(first, missing.length);
    whole.append(lazyBody(rowsOf(card, model, missing.slice(first, first + BATCH)), height));
    await new Promise((resolve) => { setTimeout(resolve); });
  }
}

/** Fixes the widths of a table's columns, for bodies that are laid out on their own; returns the height of a row, px. */
function fixWidths(whole) {
  const heads = Array.from(whole.querySelectorAll("thead th"));
  const widths = heads.map((head) => head.getBoundingClientRect().width);
  heads.forEach((head, index) => { head.style.width = `${widths[index]}px`; });
  whole.style.setProperty("--columns", widths.map((width) => `${width}px`).join(" "));
  whole.style.setProperty("--width", `${widths.reduce((sum, width) => sum + width, 0)}px`);
  whole.classList.add("fixed");
  const [body] = whole.tBodies;
  return body.getBoundingClientRect().height / Math.max(body.rows.length, 1);
}

/**
 * Returns rows as a table body that is laid out when it comes into view: a table of 10,000 rows of ten series takes
 * seconds each time that it grows. Its style (kernel.css) is no table's, so its roles are explicit.
 */
function lazyBody(rows, height) {
  const body = make("tbody", { class: "apart", role: "rowgroup" }, ...rows);
  body.style.setProperty("contain-intrinsic-height", `auto ${Math.round(height * rows.length)}px`);
  for (const row of rows) {
    row.setAttribute("role", "row");
    for (const cell of row.cells) cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
  }
  return body;
}

// ---- the source -----------------------------------------------------------------------------------------------------

/** Shows the version of the kernel's source that the reader chooses, or that the address names. */
function startSource() {
  const source = document.querySelector(".source");
  const select = source?.querySelector("select");
  if (!select) return;
  const newest = select.value;
  let shown = newest;
  const follow = () => {
    Address.set(select, Address.read().get("source"), newest);
    if (select.value === shown) return;
    shown = select.value;
    source.open = true;
    showSource(source, select);
  };
  select.disabled = false;
  select.addEventListener("change", () => {
    const query = Address.read();
    query.delete("source");
    if (select.value !== newest) query.set("source", select.value);
    Address.write(query, true);
    follow();
  });
  window.addEventListener("hashchange", follow);
  follow();
}

async function showSource(source, select) {
  const wanted = select.value;
  const files = source.querySelector(".files");
  try {
    const { texts, versions } = await KV.load(source.dataset.source);
    if (select.value !== wanted) return;
    const version = versions.find(({ commit }) => commit === wanted);
    files.replaceChildren(...Object.entries(version.files).flatMap(([name, text]) => [
      make("h3", {}, name), make("pre", { tabindex: 0, "aria-label": name }, make("code", {}, texts[text])),
    ]));
  } catch (error) {
    files.textContent = error.message;
  }
}
