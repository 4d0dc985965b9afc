// The tables behind a kernel's chart: fills in the commits that the page itself leaves out, and older sources.
"use strict";

const KernelTables = (() => {
  const MOST = 50; // commits in the table of what the chart shows
  const FIRST = 50; // commits that a table has without being asked for more
  const STEP = 400; // rows a turn: the page stays alive while ten thousand are made

  /** Returns the footnotes below a table: text -> number. */
  function notesBelow(card) {
    return new Map(Array.from(card.closest(".behind").querySelectorAll(".footnotes li"), (item, index) => [item.textContent, index + 1]));
  }

  /** Returns the cell of an entry; `notes` are the footnotes that the page has, other remarks stand in the cell. */
  function cell(series, entry, notes) {
    const { element } = KernelTip;
    const { columns } = series;
    if (entry === KernelColumns.MISSING) return textCell("absent", "–");
    const outcome = columns.outcome[entry];
    const reason = (text) => (outcome === "measured" ? text : `${outcome}: ${text}`); // the first of what has no time
    const known = (columns.remarks[entry] ?? []).map((text, index) => [text, notes.get(index ? text : reason(text))]);
    const marks = known.flatMap(([, number]) => number ?? []).sort((one, other) => one - other);
    const remarks = known.filter(([, number]) => number === undefined).map(([text]) => text).join("; ");
    const change = KernelColumns.change(columns, entry);
    const made = outcome === "measured" ? textCell(change?.tone ?? "", rate(columns, entry)) : textCell(outcome, outcome);
    const said = outcome === "measured" ? detail(columns, entry) : "";
    if (marks.length) made.append(element("sup", "marks", marks.join(", ")));
    if (change) made.append(element("span", "change", change.text));
    if (said) made.append(element("span", "detail", said));
    if (remarks) {
      const note = element("span", "detail remarks");
      note.append(element("bdi", "", remarks));
      made.append(note);
    }
    return made;
  }

  function textCell(tone, text) {
    const made = KernelTip.element("td", `value ${tone}`);
    made.append(KernelTip.element("span", "text", text));
    return made;
  }

  /** The rate of a measured value; its time where the FLOPs are unknown (site/text.py). */
  function rate({ flop, operation, seconds }, entry) {
    return flop === null ? Numbers.seconds(seconds[entry]) : Numbers.rate(flop / seconds[entry] / 1e9, operation);
  }

  function detail({ flop, operation, seconds, low, high }, entry) {
    const known = low[entry] !== null && high[entry] !== null;
    const bounds = !known ? "" : flop === null
      ? `${Numbers.seconds(low[entry])} to ${Numbers.seconds(high[entry])}`
      : Numbers.interval(flop / high[entry] / 1e9, flop / low[entry] / 1e9, "GFLOPS", Numbers.rateUnit(operation));
    return [bounds, flop === null ? "" : Numbers.seconds(seconds[entry])].filter(Boolean).join(" · ");
  }

  const row = (commit, cells) => make("tr", {}, make("th", { class: "commit", scope: "row" }, ...KernelTip.commitHead(commit)), ...cells);

  /** Returns the places of the commits of a model that a table does not have, newest first. */
  function lacking(card, model) {
    const have = new Set(Array.from(card.querySelectorAll("tbody a.sha"), (link) => link.getAttribute("href")));
    return model.commits.map((_, x) => x).reverse().filter((x) => !have.has(model.commits[x].page));
  }

  function rowsOf(card, model, places) {
    const notes = notesBelow(card);
    const lines = Array.from(card.querySelectorAll("thead th bdi"), (head) => model.lines.find((line) => line.name === head.textContent));
    return places.map((x) => row(model.commits[x], lines.map((line) => (line === undefined ? textCell("absent", "–") : cell(line.series, line.at[x], notes)))));
  }

  /** Adds the commits of a model that a table does not have yet; `told` hears how many of how many. */
  async function fill(card, model, told) {
    const body = card.querySelector("tbody");
    const missing = lacking(card, model);
    const height = keepWidths(body.parentElement);
    for (let first = 0; first < missing.length; first += STEP) {
      told(first, missing.length);
      body.parentElement.append(group(rowsOf(card, model, missing.slice(first, first + STEP)), height));
      await new Promise((resolve) => { setTimeout(resolve); });
    }
  }

  /** Fixes the widths of a table's columns, for rows that are laid out apart from it; returns how high a row is, px. */
  function keepWidths(table) {
    const heads = Array.from(table.querySelectorAll("thead th"));
    const widths = heads.map((head) => head.getBoundingClientRect().width);
    heads.forEach((head, index) => { head.style.width = `${widths[index]}px`; });
    table.style.setProperty("--columns", widths.map((width) => `${width}px`).join(" "));
    table.style.setProperty("--width", `${widths.reduce((sum, width) => sum + width, 0)}px`);
    table.classList.add("fixed");
    const [body] = table.tBodies;
    return body.getBoundingClientRect().height / Math.max(body.rows.length, 1);
  }

  /**
   * Returns a part of a table whose rows are laid out when they come into view: a table of 10,000 rows of ten series
   * takes seconds each time that it grows. Its roles are said, as its style (kernel.css) is no table's.
   */
  function group(rows, height) {
    const made = make("tbody", { class: "apart", role: "rowgroup" }, ...rows);
    made.style.setProperty("contain-intrinsic-height", `auto ${Math.round(height * rows.length)}px`);
    for (const one of rows) {
      one.setAttribute("role", "row");
      for (const part of one.children) part.setAttribute("role", part.tagName === "TH" ? "rowheader" : "cell");
    }
    return made;
  }

  /** Fills the table of what the chart shows, in its own unit: the newest commits of `range`. */
  function tell(section, model, range) {
    const lines = model.lines.filter((line) => line.visible);
    const count = range === "all" ? model.commits.length : Math.min(Number(range), model.commits.length);
    const shown = model.commits.map((_, x) => x).reverse().slice(0, Math.min(count, MOST));
    const rows = shown.map((x) => [commitCell(model.commits[x]), ...lines.map((line) => saidCell(line.tell(x)))]);
    const behind = section.querySelector(".behind-chart");
    const newest = shown.length < count ? `, the newest ${shown.length} of ${Numbers.count(count)} commits` : "";
    behind.querySelector("summary").textContent = `The chart as a table: ${model.unit}${newest}`;
    behind.querySelector(".scroll").replaceChildren(table(["commit", ...lines.map((line) => foreign(line.name))], rows));
  }

  function commitCell(commit) {
    return make("span", { class: "commit" }, make("a", { class: "sha", href: commit.page }, commit.sha.slice(0, 8)), " ",
      make("span", { class: "subject" }, foreign(commit.subject || "(no message)")));
  }

  function saidCell({ value, interval }) {
    return make("span", {}, make("span", { class: "text" }, value), make("span", { class: "detail" }, interval ?? ""));
  }

  /** Adds commits to the table of a choice where the page leaves some out; the reader can have the others too. */
  function offer(section, choice, model) {
    const part = Array.from(document.querySelectorAll(".behind")).find((item) => item.dataset.group === choice.anchor);
    const card = Array.from(part?.querySelectorAll(".case") ?? []).find((item) => item.dataset.case === choice.case);
    const more = card?.querySelector(".more");
    if (!more) return;
    const body = card.querySelector("tbody");
    body.append(...rowsOf(card, model, lacking(card, model).slice(0, Math.max(FIRST - body.rows.length, 0))));
    const further = card.querySelector(".further");
    const left = lacking(card, model).length;
    if (left === 0) return void further.remove();
    further.querySelector(".count").textContent = `the newest ${Numbers.count(body.rows.length)} of ${Numbers.count(body.rows.length + left)} commits`;
    more.hidden = false;
    more.onclick = async () => {
      more.disabled = true;
      await fill(card, model, (done, whole) => { more.textContent = `${Numbers.count(done)} of ${Numbers.count(whole)} added`; });
      further.remove();
    };
  }

  /** Shows the source of the version of the kernel that the reader chooses, or the address names. */
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
      const said = Address.read();
      said.delete("source");
      if (select.value !== newest) said.set("source", select.value);
      Address.write(said, true);
      follow();
    });
    window.addEventListener("hashchange", follow);
    follow();
  }

  async function showSource(source, select) {
    const wanted = select.value;
    try {
      const { texts, versions } = await KV.load(source.dataset.source);
      if (select.value !== wanted) return;
      const files = Object.entries(versions.find((version) => version.commit === wanted).files);
      source.querySelector(".files").replaceChildren(...files.flatMap(([name, text]) => shownFile(name, texts[text])));
    } catch (error) {
      source.querySelector(".files").textContent = error.message;
    }
  }

  function shownFile(name, text) {
    const code = KernelTip.element("pre");
    code.tabIndex = 0;
    code.setAttribute("aria-label", name);
    code.append(KernelTip.element("code", "", text));
    return [KernelTip.element("h3", "", name), code];
  }

  return { offer, tell, startSource };
})();
