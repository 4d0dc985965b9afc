// The page of the rooflines: fills Bokeh's documents (site/charts/roofline.py) with the series that the reader chose. The
// section's data file has what a series has at every commit (FLOP, bytes, least time), its own file has its times.
"use strict";

const MOST_PATHS = 24; // series drawn with every commit
const MOST_ROWS = 50; // of the table of the points
const MARKS = ["circle", "square", "triangle", "diamond", "inverted_triangle", "star"]; // one per test case of a kernel
const sections = [...document.querySelectorAll("section.roofline")];
const started = new Map(); // section -> {plot, data, turn, placeLabels}

// ---- the points -----------------------------------------------------------------------------------------------------

/** Returns a value of a series as the chart's columns have it; `age` is 0 for the newest, up to 1 for the oldest. */
function point(series, seconds, commit, age) {
  const { flop, bytes, least, operation, kernel, implementation, bound } = series;
  const rate = flop / seconds / 1e9;
  return {
    x: flop / bytes, y: rate, alpha: 1 - 0.85 * age, size: age === 0 ? 11 : 6,
    kernel, case: series.case, implementation, bound,
    commit: commit.sha.slice(0, 8), subject: commit.subject, page: commit.page,
    intensity: Numbers.intensity(flop / bytes, operation), rate: Numbers.rate(rate, operation),
    bandwidth: Numbers.gigabytes(bytes / seconds / 1e9), time: Numbers.seconds(seconds),
    efficiency: least === null ? "no roofs" : series.apart?.includes(commit.sha) ? "other threads" : Numbers.efficiency(Math.min(least / seconds, 1)),
  };
}

/** Returns the points of a series, oldest first; without its own data (null) only the newest. */
function points(series, data, commitOf) {
  if (data === null) return [point(series, series.seconds, commitOf(series.commit), 0)];
  const measured = data.commit.map((sha, index) => [sha, data.seconds[index]]).filter(([, seconds]) => seconds !== null);
  const last = measured.length - 1;
  return measured.map(([sha, seconds], index) => point(series, seconds, commitOf(sha), index === last ? 0 : 1 - index / last));
}

// ---- drawing --------------------------------------------------------------------------------------------------------

/** Draws series; `paths` has the points of each. */
function draw(section, series, paths) {
  const { plot } = started.get(section);
  const sources = Object.fromEntries(plot.renderers.map(({ data_source: source }) => [source.name, source]));
  const colours = new Map(boxesOf(section).map((box) => [box.value, box.dataset.colour]));
  const kindOf = (one) => `${one.kernel} ${one.case}`;
  const kinds = [...new Set(series.map(kindOf))];
  const rows = paths.flat().map((row) => ({
    ...row, colour: colours.get(row.implementation), mark: MARKS[kinds.indexOf(kindOf(row)) % MARKS.length],
  }));
  const columns = (names, values) => Object.fromEntries(names.map((name) => [name, values.map((value) => value[name])]));
  sources.points.data = columns(Object.keys(sources.points.data), rows);
  sources.paths.data = {
    xs: paths.map((path) => path.map(({ x }) => x)), ys: paths.map((path) => path.map(({ y }) => y)),
    colour: series.map((one) => colours.get(one.implementation)),
  };
  const newest = series.length <= MOST_PATHS ? paths.flatMap((path) => path.at(-1) ?? []) : [];
  const text = labelsOf(series, newest);
  const placeLabels = () => {
    sources.names.data = { ...columns(["x", "y"], newest), text, ...RooflineLabels.placed(plot, newest, text) };
  };
  placeLabels();
  started.get(section).placeLabels = placeLabels; // again at another width
  showTable(section, paths);
}

/** Returns the labels of the newest points: what tells a series from the others. */
function labelsOf(series, newest) {
  const differ = (values) => new Set(values).size > 1;
  const parts = ["kernel", "implementation", "case"].filter((name) => name === "implementation" || differ(series.map((one) => one[name])));
  const hasTypes = differ(series.map((one) => one.case.split("-")[0]));
  const textOf = (row, name) => (name === "case" && !hasTypes ? row.case.replace(/^[^-]*-(?=.)/s, "") : row[name]);
  return newest.map((row) => parts.map((name) => textOf(row, name)).join(" ").slice(0, 48));
}

/** Fills the table of what is drawn: the newest point of each series, then the one before it, and so on. */
function showTable(section, paths) {
  const rows = paths.flatMap((path) => path.map((row, index) => ({ row, back: path.length - 1 - index }))).sort((a, b) => a.back - b.back);
  const cells = rows.slice(0, MOST_ROWS).map(({ row }) => [
    make("a", { class: "sha", href: row.page }, row.commit), ...[row.kernel, row.implementation, row.case].map(foreign),
    row.rate, row.efficiency, row.intensity, row.bandwidth, row.time,
  ]);
  const part = section.querySelector(".behind-chart");
  part.hidden = rows.length === 0;
  part.querySelector("summary").textContent = `The points as a table${rows.length > MOST_ROWS ? `, the newest ${MOST_ROWS} of ${Numbers.count(rows.length)}` : ""}`;
  part.querySelector(".scroll").replaceChildren(
    table(["commit", "kernel", "implementation", "test case", "rate", "efficiency", "intensity", "bandwidth", "time"], cells),
  );
}

/** Shows the rows of some series in the table of the newest values, and their footnotes, which keep their numbers. */
function filterRows(section, names) {
  const used = new Set();
  for (const row of section.querySelectorAll("tr[data-series]")) {
    row.hidden = !names.includes(row.dataset.series);
    if (!row.hidden) for (const mark of row.dataset.marks.split(" ")) used.add(mark);
  }
  section.querySelectorAll(".footnotes li").forEach((note, index) => {
    note.value = index + 1;
    note.hidden = !used.has(String(index + 1));
  });
}

/** Returns what the status line says. */
function statusOf(series, withPaths, isLost) {
  if (isLost) return "Older values cannot be loaded: the newest are drawn.";
  if (series.length === 0) return "No series of that choice has a place in the plot: the table says why.";
  return withPaths ? "" : `${series.length} series: only the newest value of each is drawn. Choose a kernel and a test case to see the way there.`;
}

/** Shows what the form of a section asks for. */
async function update(section) {
  const state = started.get(section);
  const { benchmark, case: testCase } = section.querySelector("form").elements;
  narrowCases(section);
  const turn = (state.turn += 1);
  const shown = checkedIn(section);
  const chosen = state.data.series.filter((series) => shown.includes(series.implementation)
    && ["", series.benchmark].includes(benchmark.value) && ["", series.case].includes(testCase.value));
  filterRows(section, chosen.map((series) => series.name));
  const drawable = chosen.filter((series) => series.flop && series.bytes);
  const withPaths = benchmark.value !== "" && drawable.length <= MOST_PATHS;
  const commitOf = await loadCommits();
  const loaded = await Promise.all(drawable.map((series) => (withPaths ? loadSeries(series.name).catch(() => null) : null)));
  if (turn !== state.turn) return; // the reader has chosen again
  draw(section, drawable, drawable.map((series, index) => points(series, loaded[index], commitOf)));
  section.querySelector(".status").textContent = statusOf(drawable, withPaths, withPaths && loaded.includes(null));
  Address.tell(section.querySelector(".missed"), missedBy(section));
  section.dataset.ready = "yes";
}

/** Offers only the test cases that the chosen kernel has. */
function narrowCases(section) {
  const { benchmark, case: select } = section.querySelector("form").elements;
  const present = started.get(section).data.series.filter((series) => ["", series.benchmark].includes(benchmark.value)).map((series) => series.case);
  for (const option of select.options) option.hidden = option.disabled = !["", ...present].includes(option.value);
  if (select.selectedOptions[0]?.disabled ?? true) select.value = "";
}

// ---- the address: a group of choices for each section that it names -------------------------------------------------

const PLACE = ["machine", "environment", "device"];
const WORDS = { benchmark: "kernel", case: "test case", implementation: "implementation" };
const NONE = ""; // in place of an implementation: none is shown

/** Returns the groups of the address; a second machine begins a second group. */
function groups() {
  const found = [];
  for (const [name, value] of Address.read()) {
    if (found.length === 0 || (name === "machine" && found.at(-1).has(name))) found.push(new URLSearchParams());
    found.at(-1).append(name, value);
  }
  return found.filter((group) => [...PLACE, ...Object.keys(WORDS)].some((name) => group.has(name)));
}

const isOf = (section, group) => PLACE.every((name) => !group.has(name) || group.get(name) === section.dataset[name]);
const groupOf = (section) => groups().find((group) => isOf(section, group));

/** Returns what the address asks of a section and its form does not show, as Address.missed takes it. */
function missedBy(section) {
  const group = groupOf(section) ?? new URLSearchParams();
  const { elements } = section.querySelector("form");
  const shown = (name) => (name === "implementation" ? [NONE, ...boxesOf(section).map((box) => box.value)] : [elements[name].value]);
  const others = group.has("machine") ? [] : sections.filter((other) => other !== section); // any may have it
  const offers = (other, name, value) => [...other.querySelectorAll(`[name=${name}], [name=${name}] option`)].some((field) => field.value === value);
  return Object.keys(WORDS).flatMap((name) => group.getAll(name)
    .filter((value) => !shown(name).includes(value) && !others.some((other) => offers(other, name, value)))
    .map((value) => [WORDS[name], value]));
}

/** Names the machines of the address that are not here. What else is missing, the sections say. */
function tellGone() {
  const gone = groups().filter((group) => sections.every((section) => !isOf(section, group)));
  const named = gone.flatMap((group) => PLACE.flatMap((name) => group.getAll(name).map((value) => [name, value])));
  const unknown = named.filter(([name, value]) => sections.every((section) => section.dataset[name] !== value));
  Address.tell(document.getElementById("missed"), unknown.length ? unknown : named);
}

/** Returns the choice of a section as pairs of the address. */
function choiceOf(section) {
  const { benchmark, case: testCase } = section.querySelector("form").elements;
  const shown = checkedIn(section);
  const named = shown.length === boxesOf(section).length ? [] : shown.length ? shown : [NONE];
  return [...PLACE.map((name) => [name, section.dataset[name]]), ["benchmark", benchmark.value], ["case", testCase.value],
    ...named.map((name) => ["implementation", name])];
}

/** Puts the choice of a section, then those of the others, into the address, as a step of the history. */
function putAddress(section) {
  section.dataset.chosen = "yes";
  const others = sections.filter((other) => other !== section && other.dataset.chosen);
  Address.write(new URLSearchParams([section, ...others].flatMap(choiceOf)), true);
  tellGone();
}

/** Sets the form as the address says, or as it began; returns whether the address brings its reader to this section. */
function takeAddress(section) {
  const form = section.querySelector("form");
  const all = groups();
  if (all.length === 0 && window.location.hash !== "") return false; // an anchor
  form.reset();
  const group = groupOf(section);
  section.dataset.chosen = group === undefined ? "" : "yes";
  if (group === undefined) return false;
  for (const name of ["benchmark", "case"]) Address.set(form.elements[name], group.get(name), form.elements[name].value);
  const boxes = boxesOf(section);
  const wanted = group.getAll("implementation").filter((name) => name === NONE || boxes.some((box) => box.value === name));
  for (const box of boxes) box.checked = !wanted.length || wanted.includes(box.value);
  return String(group) === String(all[0]) && group.has("machine");
}

// ---- the start ------------------------------------------------------------------------------------------------------

async function start(section) {
  const data = await KV.load(section.dataset.file);
  const item = JSON.parse(section.querySelector("script.chart-document").textContent);
  const { model: plot } = await ChartPaint.embed(item, section.querySelector(".chart"));
  started.set(section, { plot, data, turn: 0, placeLabels: () => {} });
  const labels = plot.renderers.find((renderer) => renderer.name === "names");
  ChartPaint.follow(plot, () => { labels.glyph.text_color = { value: ChartPaint.colour("--ink") }; });
  plot.properties.inner_width.change.connect(() => started.get(section).placeLabels());
  section.querySelector("form").addEventListener("change", () => {
    narrowCases(section); // before the choice goes into the address
    putAddress(section);
    update(section);
  });
  if (takeAddress(section)) section.scrollIntoView();
  await update(section);
}

const nearby = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    nearby.unobserve(target);
    start(target).catch((error) => { target.querySelector(".status").textContent = error.message; });
  }
}, { rootMargin: "400px" });
for (const section of sections) nearby.observe(section);
window.addEventListener("hashchange", () => {
  for (const section of sections) takeAddress(section);
  tellGone();
  for (const section of started.keys()) update(section);
});
const [named] = sections.filter((section) => takeAddress(section)); // it may be far below
tellGone();
named?.scrollIntoView();
