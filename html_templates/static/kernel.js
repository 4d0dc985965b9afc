// A kernel's page: from the reader's choice to the charts and their tables.
"use strict";

// ---- the choice: in the form, and in the address --------------------------------------------------------------------

const IN_VIEW = ["from", "to", "commit"]; // the commits of the zoom, and the chosen one: first eight digits, in the address only
const PLACE = ["machine", "environment"];
const boxesOf = (form) => [...form.querySelectorAll("input[name=implementation]")];

/** Returns what the form says, as the address would; `source` is a field of it beside the source. */
function stateOf(form) {
  const { machine, ...fields } = Object.fromEntries(Array.from(form.elements, (field) => [field.name, field]));
  const selects = Object.values(fields).filter(({ tagName }) => tagName === "SELECT");
  return new URLSearchParams([
    ...selects.map(({ name, value }) => [name, value]), ...PLACE.map((name) => [name, machine.selectedOptions[0].dataset[name]]),
    ...boxesOf(form).filter((box) => !box.checked).map((box) => ["hide", box.value]),
  ]);
}

/** Sets the form as the address says, where the page has that; else to `usual`, the page's defaults. */
function takeAddress(form, usual) {
  const query = Address.read();
  for (const [name, value] of usual) if (!PLACE.includes(name)) offer(form.elements[name], query.get(name), value);
  const places = Array.from(form.elements.machine.options);
  const isOf = (names) => ({ dataset }) => names.every((name) => !query.has(name) || dataset[name] === query.get(name));
  (places.find(isOf(PLACE)) ?? places.find(isOf(["machine"])) ?? places[0]).selected = true;
  for (const box of boxesOf(form)) box.checked = !query.getAll("hide").includes(box.value);
}

/** Puts what differs from the page's defaults into the address, as a step of the history; `inView` replaces its commits. */
function putAddress(form, usual, inView = {}) {
  const before = Address.read();
  const isUsual = ([name, value]) => (PLACE.includes(name) ? form.elements.machine.selectedIndex === 0 : usual.get(name) === value);
  const query = new URLSearchParams([...stateOf(form)].filter((pair) => !isUsual(pair)));
  for (const name of IN_VIEW) if (inView[name] ?? before.get(name)) query.set(name, inView[name] ?? before.get(name));
  Address.write(query, true);
}

/** Returns a sentence about what the address names and the page does not show; "" for none. */
function missedBy(form, { commits }) {
  const shown = stateOf(form);
  const isShown = ([name, value]) => (IN_VIEW.includes(name) ? commits.some(({ sha }) => sha.startsWith(value)) : shown.getAll(name).includes(value));
  return Address.missed([...Address.read()].filter((pair) => pair[1] && !isShown(pair)));
}

/** Disables the options of a select that are not among `values`, and moves the choice to one that is. */
function narrowTo(select, values) {
  const options = Array.from(select.options);
  for (const option of options) option.disabled = !values.includes(option.value);
  if (!values.includes(select.value)) select.value = options.find((option) => !option.disabled)?.value ?? "";
}

/** Narrows the form to what was recorded, and returns the choice. */
function resolve(form, marks) {
  const { case: cases, layout, unit, state, machine, range, axis, scale } = form.elements;
  const { dataset } = machine.selectedOptions[0];
  const here = marks.series.filter((item) => PLACE.every((name) => item[name] === dataset[name]));
  narrowTo(state, here.map((item) => item.state));
  const inState = here.filter((item) => item.state === state.value);
  narrowTo(cases, inState.map((item) => item.case));
  const all = layout.value === "all";
  cases.closest("label").classList.toggle("unused", all);
  const series = inState.filter((item) => all || item.case === cases.value);
  narrowTo(unit, series.flatMap((item) => Object.keys(item.quantities)));
  return {
    series, anchor: `${machine.value}-${state.value}`, cases: [...new Set(series.map((item) => item.case))],
    unit: unit.value, range: range.value, isTime: axis.value === "time", scale: scale.value,
    implementations: boxesOf(form).filter((box) => box.checked).map((box) => box.value),
  };
}

// ---- the data: series joined by commit, and times converted by the rules that come with them ------------------------
// A rule (site/pages/kernel_chart.py) has one of: per, times (of a time), over, under (another series), own (values of a
// data file).

const MISSING = -1;

/** Returns whether a rule converts a time alone. Only then do rounds, changes and roof belong to the value shown. */
const isOfTime = (rule) => rule !== undefined && (rule.per !== undefined || rule.times !== undefined);

/** Returns a promise of what a rule needs besides the series itself: another series' times, or errors; undefined for nothing. */
async function loadBeside(rule, commits) {
  const other = rule?.over ?? rule?.under;
  if (other !== undefined) return loadSeries(other).then(({ commit, seconds }) => ({ commit, values: seconds }));
  if (rule?.own === undefined) return undefined;
  return KV.load(rule.own).then((file) => ({ commit: indicesOf(file, commits), values: file.value }));
}

/** Loads the series of a choice; returns {loaded, lost}, the lost ones as {name, why}. */
async function load(choice, commits) {
  const loaded = [], lost = [];
  await Promise.all(choice.series.map(async (item, index) => {
    const rule = item.quantities[choice.unit];
    try {
      const [columns, beside] = await Promise.all([loadSeries(item.name), loadBeside(rule, commits)]);
      loaded[index] = { item, rule, columns, beside };
    } catch (error) {
      lost.push({ name: item.implementation, why: messageOf(error) });
    }
  }));
  return { loaded: loaded.filter(Boolean), lost };
}

/**
 * Returns the horizontal axis of some series: `commits`, the indices in data/commits at which one of them was more than
 * n/a, and for every index of data/commits `firstX`, the first x at or after it. `count`: of data/commits.
 */
function axisOf(loaded, count) {
  const isUsed = new Uint8Array(count);
  for (const { columns } of loaded) columns.commit.forEach((index, entry) => { if (columns.outcome[entry] !== "n/a") isUsed[index] = 1; });
  const commits = [];
  const firstX = Int32Array.from(isUsed, (used, index) => (used ? commits.push(index) - 1 : commits.length));
  return { commits, firstX };
}

/** Returns for each commit of an axis the entry of a data file, or MISSING; `indices` are the commits of the entries. */
function entriesOf(indices, { commits, firstX }) {
  const entries = new Int32Array(commits.length).fill(MISSING);
  indices.forEach((index, entry) => { if (commits[firstX[index]] === index) entries[firstX[index]] = entry; });
  return entries;
}

/** Returns what turns a time, s, into a value by a rule. `other`: the time or the error of the other file. */
function conversionOf({ own, times, per, least = -Infinity, over }) {
  if (own !== undefined) return (_, other) => other;
  if (times !== undefined) return (time) => times * time;
  if (per !== undefined) return (time) => Math.max(per / time, least);
  return over !== undefined ? (time, other) => other / time : (time, other) => time / other;
}

/** Returns the values of a series along an axis: values, low, high, and `at`, the entry of each in the series' columns. */
function lineOf({ columns, rule, beside }, order, axis) {
  const at = entriesOf(columns.commit, axis);
  const otherAt = beside && entriesOf(beside.commit, axis);
  const apart = new Set(rule?.apart?.map((sha) => order.get(sha))); // commits that the rule does not hold for
  const convert = rule && conversionOf(rule);
  const along = (times) => Array.from(at, (entry, x) => {
    const time = times?.[entry] ?? null, other = beside && (beside.values[otherAt[x]] ?? null);
    const isLacking = !convert || !times || other === null || (time === null && rule.own === undefined);
    return isLacking || (apart.size && apart.has(columns.commit[entry])) ? null : convert(time, other);
  });
  const ends = isOfTime(rule) ? [columns.low, columns.high] : [];
  const [low, high] = rule?.times === undefined ? [along(ends[1]), along(ends[0])] : ends.map(along);
  return { at, apart, values: along(columns.seconds), low, high };
}

/** Returns what a series did from the newest comparable entry before one; undefined if that is nothing (past/changes.py). */
function changeAt(columns, entry) {
  if (columns.outcome[entry] !== "measured") return undefined;
  const side = (at) => ({ seconds: columns.seconds[at], method: columns.method[at], version: columns.version });
  for (let before = entry - 1; before >= 0; before -= 1) {
    if (Verdicts.lacking(side(before), side(entry)) === null) {
      const verdict = Verdicts.between(columns.levels, columns.seconds, before, entry);
      return verdict.word === "unchanged" ? undefined : verdict;
    }
  }
}

// ---- the model of a chart -------------------------------------------------------------------------------------------

/** Returns the texts about a series at a commit; those about its time only where that is shown. */
function describe({ columns, rule }, { at, apart, values, low, high }, x) {
  const entry = at[x];
  if (entry === MISSING && values[x] === null) return { value: "not measured" };
  const flags = (columns.remarks[entry] ?? []).join("; ");
  if (columns.outcome[entry] !== "measured" && values[x] === null) return { value: columns.outcome[entry], flags };
  if (apart.has(columns.commit[entry])) return { value: "measured with other threads than the roofs", flags };
  const value = Numbers.value(values[x], rule?.unit);
  if (!isOfTime(rule)) return { value };
  const [rounds, change] = [columns.rounds[entry], changeAt(columns, entry)];
  const ofKernel = columns.unit === undefined; // else of another suite, whose rounds nobody knows
  const details = [
    low[x] !== null ? Numbers.interval(low[x], high[x], rule.unit) : ofKernel && "interval unknown",
    ofKernel && (rounds ? `${rounds} ${rounds === 1 ? "round" : "rounds"}` : "rounds unknown (no telemetry)"),
    change && Verdicts.words(change, columns.unit),
  ];
  return { value, details: details.filter(Boolean).join(" · "), flags };
}

/** Returns the marks of a choice by kind, with their x; those after the newest commit of the axis are left out. */
function marksOf(page, choice, lines, axis, xs) {
  const visible = lines.filter((line) => line.visible);
  const all = page.marks.marks.flatMap((mark) => {
    const at = axis.firstX[page.order.get(mark.commit)] ?? axis.commits.length;
    const line = visible.find(({ series: { item } }) => mark.series?.includes(item.name));
    if (at >= axis.commits.length || (mark.series && !line) || (mark.group ?? choice.anchor) !== choice.anchor) return [];
    const isBetween = mark.kind === "environment" && (at > 0 || !choice.isTime); // the machine changed before the commit
    const placed = { ...mark, at, x: isBetween ? (xs[at] + (xs[at - 1] ?? -1)) / 2 : xs[at] };
    if (mark.kind !== "change") return [placed];
    const y = isOfTime(line.series.rule) ? line.y[at] : null;
    return y === null ? [] : [{ ...placed, y, colour: line.colour }];
  }).sort((a, b) => a.x - b.x);
  const of = (...kinds) => all.filter(({ kind }) => kinds.includes(kind));
  return { all, foot: of("tag", "environment"), finding: of("finding"), change: of("change"), roof: roofOf(visible, choice) };
}

/** Returns the roof of the test case as a list; empty where the quantity has none. */
function roofOf(visible, { unit, scale }) {
  const line = visible.find(({ series: { item, rule } }) => item.roof !== null && isOfTime(rule));
  if (line === undefined || unit === "cache benefit" || scale === "percent") return [];
  const { item: { roof }, rule } = line.series;
  const y = conversionOf(rule)(roof.seconds);
  return [{ y, label: `roof (${roof.text}): ${Numbers.value(y, rule.unit)}` }];
}

/** Returns whether a series is more than n/a at some commit. */
const applies = ({ columns }) => columns.outcome.some((outcome) => outcome !== "n/a");

/** Returns the values of a line in percent of its value at a commit, or at the first known one after it. */
function percentOf({ values, low, high }, base) {
  const whole = values.find((value, at) => at >= base && value);
  const change = (value) => (value === null || !whole ? null : 100 * (value / whole - 1));
  return { y: values.map(change), low: low.map(change), high: high.map(change) };
}

/** Returns the first and the last place of the commits in view, as the address or the form says. */
function viewOf(commits, { range }) {
  const query = Address.read();
  const [from, to] = ["from", "to"].map((name) => commits.findIndex(({ sha }) => query.has(name) && sha.startsWith(query.get(name))));
  const last = Math.max(commits.length - 1, 0);
  if (from >= 0 && to >= from) return [from, to];
  return [range === "all" ? 0 : Math.max(last + 1 - Number(range), 0), last];
}

/** Returns which values of another suite are better, for the title of the axis; of kernels the quantity says it. */
function hintOf([line]) {
  const { unit, levels } = line?.series.columns ?? {};
  const better = unit === undefined ? "neither" : levels.better ?? "lower";
  return better === "neither" ? "" : ` (${better} is better)`;
}

/** Returns all that the chart of a test case, its tip and its table show (trend.js). */
function modelOf(page, choice, loaded, axis, testCase) {
  const commits = axis.commits.map((index) => page.commits[index]);
  const wanted = Address.read().get("commit") || " ";
  const chosen = commits.findIndex(({ sha }) => sha.startsWith(wanted));
  const [first, last] = viewOf(commits, choice);
  let latest = -Infinity; // a commit's date can be before its parent's, and an axis only ascends
  const x = commits.map(({ date }, at) => (choice.isTime ? latest = Math.max(latest, Date.parse(date) / 1000) : at));
  const beyond = choice.isTime ? Math.max((x[last] - x[first]) / 100, 3600) : 0.5;
  const base = chosen < 0 ? first : chosen;
  const lines = loaded.filter(({ item }) => item.case === testCase).map((series) => {
    const line = lineOf(series, page.order, axis);
    const name = series.item.implementation;
    const drawn = choice.scale === "percent" ? percentOf(line, base) : { y: line.values, low: line.low, high: line.high };
    const visible = choice.implementations.includes(name) && applies(series);
    return { at: line.at, name, series, ...page.looks.get(name), visible, ...drawn, describe: (at) => describe(series, line, at) };
  });
  const marks = marksOf(page, choice, lines, axis, x);
  const rule = lines.find(({ series }) => series.rule)?.series.rule;
  const most = lines.reduce((least, { y }) => y.reduce((sum, value) => Math.max(sum, value ?? 0), least), 0);
  const [unit, per] = choice.scale === "percent" ? ["", 1] : Numbers.readable(most, rule?.unit ?? "");
  const quantity = page.words.get(choice.unit);
  return {
    case: testCase, x, lines, marks, commits, isTime: choice.isTime, scale: choice.scale, chosen: chosen < 0 ? null : chosen, per,
    title: choice.scale === "percent" && commits.length ? `${quantity}, % against ${commits[base].sha.slice(0, 8)}`
      : `${quantity}${["", "%", "×"].includes(unit) ? "" : `, ${unit}`}${hintOf(lines)}`,
    view: /** @type {[number, number]} */ (commits.length ? [x[first] - beyond, x[last] + beyond] : [-0.5, 0.5]),
    marksAt: (at) => marks.all.filter((mark) => mark.at === at),
  };
}

// ---- the page -------------------------------------------------------------------------------------------------------

const [SMALL, TALL] = [230, window.innerWidth > 640 ? 440 : 330]; // px

/** Shows the tables of a choice. */
function showTables(choice) {
  for (const part of document.querySelectorAll(".behind")) {
    part.hidden = part.dataset.group !== choice.anchor;
    for (const card of part.querySelectorAll(".case")) card.hidden = !choice.cases.includes(card.dataset.case);
  }
}

/** Shows the chosen version of the kernel's source. */
async function showSource(source, select) {
  if (!select) return;
  select.disabled = false;
  if ((source.dataset.shown ?? select.options[0].value) === select.value) return;
  const wanted = source.dataset.shown = select.value;
  const files = source.querySelector(".files");
  source.open = true;
  try {
    const { texts, versions } = await KV.load(source.dataset.source);
    if (select.value !== wanted) return;
    const version = versions.find(({ commit }) => commit === wanted);
    files.replaceChildren(...Object.entries(version.files).flatMap(([name, text]) => [
      make("h3", {}, name), make("pre", { tabindex: 0, "aria-label": name }, make("code", {}, texts[text])),
    ]));
  } catch (error) {
    files.textContent = messageOf(error);
  }
}

const report = (section, text) => { section.querySelector(".status").textContent = text; };

/** Returns what the status line says of the models. */
function statusOf(form, models, { range }, lost) {
  const count = models[0].commits.length;
  const newest = range !== "all" && count > Number(range) ? `the newest ${range} of ` : "";
  const named = (why) => lost.filter((series) => series.why === why).map(({ name }) => `\u2068${name}\u2069`).join(", ");
  const losses = [...new Set(lost.map(({ why }) => why))].map((why) => `${why}, so this is not shown: ${named(why)}; write the site again (kv report).`);
  const roofs = models.length === 1 ? models[0].marks.roof.map(({ label }) => label) : [];
  const counted = [`${newest}${Numbers.count(count)} ${count === 1 ? "commit" : "commits"}`, ...roofs].join("; ");
  return [missedBy(form, models[0]), ...losses, counted].filter(Boolean).join(" ");
}

async function startTrend(section) {
  const form = section.querySelector("form");
  const [marks, { commits }] = await Promise.all([KV.load(section.dataset.marks), KV.load("commits")]);
  const page = {
    marks, commits, order: new Map(commits.map((commit, index) => [commit.sha, index])),
    looks: new Map(boxesOf(form).map(({ value, dataset: { colour, dash } }) => [value, { colour, dash }])),
    words: new Map(Array.from(form.elements.unit.options, (option) => [option.value, option.dataset.axis])),
  };
  const usual = stateOf(form);
  const stage = section.querySelector(".stage");
  const reset = section.querySelector("button");
  const update = () => show().catch((error) => report(section, error.message));
  const goTo = (inView) => { putAddress(form, usual, inView); update(); };
  const tip = startTip(stage, goTo);
  let turn = 0;
  const parts = [...stage.querySelectorAll(".panel")]; // one for each test case
  let panels = []; // of those that are shown: {host, model, chart}
  const resized = new ResizeObserver(() => {
    for (const { chart, host } of panels) if (![0, chart.width].includes(host.clientWidth)) chart.setSize({ width: host.clientWidth, height: chart.height });
  });
  for (const part of parts) resized.observe(part.querySelector(".chart"));

  async function show() {
    const mine = turn += 1;
    const choice = resolve(form, marks);
    showTables(choice);
    showSource(document.querySelector(".source"), form.elements.source);
    const { loaded, lost } = await load(choice, commits);
    if (mine !== turn) return; // the reader has chosen something else meanwhile
    const shown = [...loaded.filter(applies).map(({ item }) => item.implementation), ...lost.map(({ name }) => name)];
    for (const box of boxesOf(form)) box.closest("label").hidden = !shown.includes(box.value);
    form.querySelector("fieldset").hidden = shown.every((name) => name === "");
    const axis = axisOf(loaded, commits.length);
    for (const { chart } of panels) chart.destroy();
    for (const part of parts) part.hidden = !choice.cases.includes(part.dataset.case);
    stage.classList.toggle("many", choice.cases.length > 1);
    panels = parts.filter(({ hidden }) => !hidden).map((part) => {
      const panel = { host: part.querySelector(".chart"), model: modelOf(page, choice, loaded, axis, part.dataset.case) };
      panel.chart = Trend.draw(panel.host, panel.model, choice.cases.length > 1 ? SMALL : TALL, tip.events(panel));
      return panel;
    });
    section.panels = panels; // what tests read
    tip.restart(panels);
    reset.hidden = !Address.read().has("from");
    report(section, statusOf(form, panels.map(({ model }) => model), choice, lost));
    section.dataset.drawn = String(mine);
  }

  reset.addEventListener("click", () => goTo({ from: "", to: "" }));
  form.addEventListener("submit", (event) => event.preventDefault());
  const follow = ({ target }) => {
    if (target.form !== form) return;
    resolve(form, marks);
    goTo({});
  };
  document.addEventListener("change", follow); // of the source, too
  window.addEventListener("hashchange", () => { takeAddress(form, usual); update(); });
  takeAddress(form, usual);
  await show();
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    window.matchMedia(query).addEventListener("change", () => { for (const { chart } of panels) chart.redraw(false); });
  }
  section.dataset.ready = "yes";
}

for (const section of document.querySelectorAll("section.trend")) startTrend(section).catch((error) => report(section, error.message));
