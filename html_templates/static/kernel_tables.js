// The tables behind a kernel's chart: fills in the commits that the page itself leaves out, and older sources.
"use strict";

const KernelTables = (() => {
  const STEP = 400; // rows a turn: the page stays alive while ten thousand are made

  function cell(series, entry) {
    const { element } = KernelTip;
    const { columns } = series;
    if (entry === KernelColumns.MISSING) return textCell("absent", "–");
    const remarks = (columns.remarks[entry] ?? []).join("; ");
    const outcome = columns.outcome[entry];
    const made = outcome === "measured" ? textCell("", rate(columns, entry)) : textCell(outcome, outcome);
    const said = outcome === "measured" ? detail(columns, entry) : "";
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

  /** The rate of a measured value; its time where the FLOPs are unknown (tools/pages.py). */
  function rate({ flop, seconds }, entry) {
    return flop === null ? Numbers.seconds(seconds[entry]) : Numbers.gflops(flop / seconds[entry] / 1e9);
  }

  function detail({ flop, seconds, low, high }, entry) {
    const known = low[entry] !== null && high[entry] !== null;
    const bounds = !known ? "" : flop === null
      ? `${Numbers.seconds(low[entry])} to ${Numbers.seconds(high[entry])}`
      : Numbers.interval(flop / high[entry] / 1e9, flop / low[entry] / 1e9, "GFLOPS");
    return [bounds, flop === null ? "" : Numbers.seconds(seconds[entry])].filter(Boolean).join(" · ");
  }

  function row(commit, cells) {
    const { element, foreign } = KernelTip;
    const made = element("tr");
    const head = element("th", "commit");
    head.scope = "row";
    const link = element("a", "sha", commit.sha.slice(0, 8));
    link.href = commit.page;
    const when = commit.date.slice(0, 16).replace("T", " ");
    head.append(link, " ", foreign("subject", commit.subject || "(no message)"), " ", foreign("who", `${commit.author}, ${when}`));
    made.append(head, ...cells);
    return made;
  }

  /** Adds the commits of a model that a table does not have yet, newest first. */
  async function fill(card, model) {
    const body = card.querySelector("tbody");
    const have = new Set(Array.from(body.querySelectorAll("a.sha"), (link) => link.getAttribute("href")));
    const lines = Array.from(card.querySelectorAll("thead th bdi"), (head) => model.lines.find((line) => line.name === head.textContent));
    const missing = model.commits.map((_, x) => x).reverse().filter((x) => !have.has(model.commits[x].page));
    for (let first = 0; first < missing.length; first += STEP) {
      body.append(...missing.slice(first, first + STEP).map((x) => row(model.commits[x], lines.map((line) =>
        (line === undefined ? textCell("absent", "–") : cell(line.series, line.at[x]))))));
      await new Promise((resolve) => { setTimeout(resolve); });
    }
  }

  /** Lets the reader fill the table of a choice, where the page leaves commits out. */
  function offer(section, choice, model) {
    const part = Array.from(document.querySelectorAll(".behind")).find((item) => item.dataset.group === choice.anchor);
    const card = Array.from(part?.querySelectorAll(".case") ?? []).find((item) => item.dataset.case === choice.case);
    const more = card?.querySelector(".more");
    if (!more) return;
    more.hidden = false;
    more.onclick = async () => {
      more.disabled = true;
      await fill(card, model);
      card.querySelector(".further").remove();
    };
  }

  /** Shows the source of another version of the kernel when the reader chooses it. */
  function startSource() {
    const source = document.querySelector(".source");
    const select = source?.querySelector("select");
    if (!select) return;
    select.disabled = false;
    select.addEventListener("change", async () => {
      const wanted = select.value;
      try {
        const { texts, versions } = await KV.load(source.dataset.source);
        if (select.value !== wanted) return;
        const files = Object.entries(versions.find((version) => version.commit === wanted).files);
        source.querySelector(".files").replaceChildren(...files.flatMap(([name, text]) => shownFile(name, texts[text])));
      } catch (error) {
        source.querySelector(".files").textContent = error.message;
      }
    });
  }

  function shownFile(name, text) {
    const code = KernelTip.element("pre");
    code.tabIndex = 0;
    code.setAttribute("aria-label", name);
    code.append(KernelTip.element("code", "", text));
    return [KernelTip.element("h3", "", name), code];
  }

  return { offer, startSource };
})();
