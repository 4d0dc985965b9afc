// A kernel's page: from the reader's choice to the chart and the tables that belong to it.
"use strict";

(() => {
  const loaded = new Promise((resolve) => { document.addEventListener("DOMContentLoaded", resolve); });

  /**
   * Loads what one choice needs: the series of the test case, and what their values are divided by or taken from.
   * Returns {loaded, lost}: the series, and those that cannot be shown, as {name, why}.
   */
  async function load(marks, choice) {
    const own = marks.series.filter((item) => item.machine === choice.machine && item.environment === choice.environment
      && item.state === choice.state && item.case === choice.case);
    const asked = await Promise.allSettled(own.map(async (item) => {
      const rule = item.quantities[choice.unit];
      const [columns, other] = await Promise.all([Series.load(item.name), KernelColumns.beside(rule)]);
      return { item, rule, columns, beside: other };
    }));
    const lost = asked.map(({ reason }, index) => ({ name: own[index].implementation, why: reason?.message }));
    return {
      loaded: asked.filter(({ status }) => status === "fulfilled").map(({ value }) => value),
      lost: lost.filter((_, index) => asked[index].status === "rejected"),
    };
  }

  /** Returns what is lost, by what is to blame for it. */
  function missing(lost) {
    const named = (why) => lost.filter((one) => one.why === why).map(({ name }) => `\u2068${name}\u2069`).join(", ");
    const whys = [...new Set(lost.map(({ why }) => why))];
    return whys.map((why) => `${why}, so this is not shown: ${named(why)}; write the site again (kv report).`);
  }

  /** Returns what the cursor says of a series at a commit; what is known of its time only where that is what is shown. */
  function teller(series, line, unit) {
    return (x) => {
      const { columns, rule } = series;
      const entry = line.at[x];
      const measured = entry !== KernelColumns.MISSING && columns.outcome[entry] === "measured";
      if (entry === KernelColumns.MISSING && Number.isNaN(line.y[x])) return { value: "not measured" };
      const flags = (columns.remarks[entry] ?? []).join("; ");
      if (!measured && Number.isNaN(line.y[x])) return { value: columns.outcome[entry], flags };
      if (rule?.apart?.includes(columns.commit[entry])) return { value: "measured with other threads than the roofs", flags };
      const value = Numbers.value(line.y[x], unit, rule?.unit);
      if (!KernelColumns.isOfTime(rule)) return { value };
      const rounds = columns.rounds[entry] ?? null;
      return {
        value,
        interval: Number.isNaN(line.low[x]) ? "interval unknown" : Numbers.interval(line.low[x], line.high[x], unit, rule.unit),
        rounds: rounds === null ? "rounds unknown (no telemetry)" : `${rounds} ${rounds === 1 ? "round" : "rounds"}`,
        change: KernelColumns.change(columns, entry)?.text ?? "",
        flags,
      };
    };
  }

  /** Returns the marks of a choice with their x; those behind the newest commit shown are left out. */
  function marked(page, choice, loaded, lines, shown) {
    const at = (mark) => KernelColumns.xOf(shown, page.order.get(mark.commit) ?? Infinity);
    const placed = (mark, more) => ({ ...mark, ...more, at: at(mark), x: at(mark) + (more.shift ?? 0) });
    const visible = loaded.filter((series, index) => lines[index].visible);
    const names = new Set(visible.map((series) => series.item.name));
    const group = page.marks.groups.find((item) => item.anchor === choice.anchor);
    const findings = page.marks.findings.filter((mark) => mark.series.some((name) => names.has(name)));
    const found = {
      tag: page.marks.tags.map((mark) => placed(mark, {})),
      environment: group.events.map((mark) => placed(mark, { shift: -0.5 })),
      finding: findings.map((mark) => placed(mark, { label: `${mark.kind}, ${mark.state}`, what: mark.kind })),
      changes: visible.flatMap((series) => changesOf(series, lines[loaded.indexOf(series)], placed)),
    };
    for (const [kind, items] of Object.entries(found)) {
      found[kind] = items.filter((mark) => mark.at < shown.length).map((mark) => ({ ...mark, kind }));
    }
    found.changes.sort((one, other) => one.x - other.x);
    return found;
  }

  function changesOf(series, line, placed) {
    const { item } = series;
    if (!KernelColumns.isOfTime(series.rule)) return []; // they are of the time
    return item.changes.map((mark) => {
      const place = placed(mark, {});
      const text = `change point, ${item.implementation}: ${mark.text} (${mark.detail})`;
      return { ...place, y: line.y[place.at], label: mark.text, text, marker: mark.faster ? "triangle" : "inverted_triangle", colour: line.colour };
    });
  }

  /** Returns the roof of a test case in the unit shown; nothing where the unit has none. */
  function roofs(loaded, lines, unit) {
    const series = loaded.find(({ item, rule }, index) => lines[index].visible && item.roof !== null && KernelColumns.isOfTime(rule));
    if (series === undefined || unit === "cache benefit") return [];
    const { seconds, text } = series.item.roof;
    const [y] = KernelColumns.convert(series.rule, seconds, null, null);
    return [{ y, label: `roof (${text}): ${Numbers.value(y, unit, series.rule.unit)}` }];
  }

  /** Returns whether a series is more than n/a somewhere. */
  function applies({ columns }) {
    return columns.outcome.some((outcome) => outcome !== "n/a");
  }

  /** Returns everything that the chart shows of a choice. */
  function model(page, choice, loaded) {
    const shown = KernelColumns.axis(loaded, page.order);
    const ranks = KernelColumns.ranks(shown, page.commits.length);
    const commits = Array.from(shown, (place) => page.commits[place]);
    const lines = loaded.map((series) => {
      const line = KernelColumns.line(series, series.rule, page.order, ranks);
      const name = series.item.implementation;
      return { ...line, name, series, ...page.looks.get(name), visible: choice.implementations.has(name) && applies(series), tell: teller(series, line, choice.unit) };
    });
    const marks = marked(page, choice, loaded, lines, shown);
    const all = [...marks.finding, ...marks.changes, ...marks.tag, ...marks.environment];
    return {
      lines, commits, unit: loaded.find(({ rule }) => rule?.unit)?.rule.unit ?? page.words.get(choice.unit), scale: choice.scale,
      marks: { ...marks, roof: roofs(loaded, lines, choice.unit) },
      at: (x) => all.filter((mark) => mark.at === x),
    };
  }

  /** Narrows the form to what there is, and returns the choice. */
  function resolve(form, marks) {
    const { case: cases, unit, state, machine, range, scale } = form.elements;
    const place = machine.selectedOptions[0].dataset;
    const here = marks.series.filter((item) => item.machine === place.machine && item.environment === place.environment);
    KernelChoice.offer(state, new Set(here.map((item) => item.state)));
    const own = here.filter((item) => item.state === state.value);
    KernelChoice.offer(cases, new Set(own.map((item) => item.case)));
    const quantities = own.filter((item) => item.case === cases.value).flatMap((item) => Object.keys(item.quantities));
    KernelChoice.offer(unit, new Set(quantities));
    return {
      machine: place.machine, environment: place.environment, anchor: `${machine.value}-${state.value}`, state: state.value,
      case: cases.value, unit: unit.value, range: range.value, scale: scale.value, implementations: KernelChoice.implementations(form),
    };
  }

  function showTables(choice) {
    for (const part of document.querySelectorAll(".behind")) {
      part.hidden = part.dataset.group !== choice.anchor;
      for (const card of part.querySelectorAll(".case")) card.hidden = card.dataset.case !== choice.case;
    }
  }

  /** Has what scrolls end below a whole row, so that none is cut. */
  function endBelowARow(scroll) {
    scroll.style.removeProperty("--end");
    if (scroll.scrollHeight <= scroll.clientHeight) return;
    const { top, height } = scroll.getBoundingClientRect();
    const room = height - scroll.offsetHeight + scroll.clientHeight; // without the bar of a table that is too wide
    let end = 0;
    for (const row of scroll.querySelectorAll("tbody tr")) {
      const bottom = row.getBoundingClientRect().bottom - top + scroll.scrollTop;
      if (bottom > room) break;
      end = bottom;
    }
    if (end > 0) scroll.style.setProperty("--end", `${end + height - room}px`);
  }

  const sized = new ResizeObserver((entries) => {
    for (const { target } of entries) endBelowARow(target.closest(".scroll"));
  });

  function say(section, text) {
    section.querySelector(".status").textContent = text;
  }

  async function start(section) {
    const form = section.querySelector("form");
    const [marks, { commits }] = await Promise.all([KV.load(section.dataset.marks), KV.load("commits")]);
    const boxes = Array.from(form.querySelectorAll("[name=implementation]"));
    const page = {
      marks, commits, order: KernelColumns.places(commits),
      looks: new Map(boxes.map(({ value, dataset: { colour, dash } }) => [value, { colour, dash }])),
      words: new Map(Array.from(form.elements.unit.options, (option) => [option.value, option.dataset.axis])),
    };
    KernelChoice.take(form);
    load(marks, resolve(form, marks)); // on its way while Bokeh starts
    await loaded;
    const item = JSON.parse(section.querySelector("script.chart-document").textContent);
    const stage = section.querySelector(".stage");
    let tip = null;
    const chart = await Trend.create(stage.querySelector(".chart"), item, () => tip?.hide());
    tip = KernelTip.start(stage, chart, () => (chart.model === null ? [0, 0] : Trend.inView(chart)));
    let turn = 0;

    async function show() {
      const mine = turn += 1;
      const choice = resolve(form, marks);
      showTables(choice);
      const { loaded: series, lost } = await load(marks, choice);
      if (mine !== turn) return; // the reader has chosen something else meanwhile
      tip.hide();
      KernelChoice.offerBoxes(form, [...series.filter(applies).map(({ item }) => item.implementation), ...lost.map(({ name }) => name)]);
      const made = model(page, choice, series);
      Trend.draw(chart, made, choice.range);
      KernelTables.tell(section, made, choice.range);
      if (!lost.length) KernelTables.offer(section, choice, made);
      const [roof] = made.marks.roof;
      const count = made.commits.length;
      const newest = choice.range !== "all" && count > Number(choice.range) ? `the newest ${choice.range} of ` : "";
      const counted = `${newest}${Numbers.count(count)} ${count === 1 ? "commit" : "commits"}`;
      const known = roof ? `${counted}; ${roof.label}` : counted;
      say(section, [KernelChoice.missed(form), ...missing(lost), known].filter(Boolean).join(" "));
      section.dataset.drawn = String(mine);
    }

    const shown = () => show().catch((error) => say(section, error.message));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", () => {
      resolve(form, marks);
      KernelChoice.put(form);
      shown();
    });
    window.addEventListener("hashchange", () => { KernelChoice.take(form); shown(); });
    await show();
    section.dataset.ready = "yes";
  }

  for (const section of document.querySelectorAll("section.trend")) {
    start(section).catch((error) => say(section, error.message));
  }
  for (const table of document.querySelectorAll(".behind table")) sized.observe(table);
  KernelTables.startSource();
})();
