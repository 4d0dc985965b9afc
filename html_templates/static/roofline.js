// The page of the rooflines: embeds Bokeh's documents (site/pages/roofline.py), whose sources it fills with the series
// that the reader chose. What a series has at every commit (FLOP, bytes, least time) stands in the section's data file,
// its times in its own. No text becomes HTML.
"use strict";

const MOST_PATHS = 24; // series whose every commit is drawn at once
const MOST_ROWS = 50; // of the points, newest first, in the table behind the chart
const MARKS = ["circle", "square", "triangle", "diamond", "inverted_triangle", "star"]; // one per test case or kernel

/** Colours the labels of the points. */
function paintNames(plot) {
  const [names] = plot.renderers.filter((renderer) => renderer.name === "names");
  names.glyph.text_color = { value: ChartPaint.colour("--ink") };
}

function sources(plot) {
  const found = {};
  for (const renderer of plot.renderers) found[renderer.data_source.name] = renderer.data_source;
  return found;
}

/** Returns the series that the form asks for. */
function chosen(form, series) {
  const shown = new Set([...form.querySelectorAll("[name=implementation]:checked")].map((box) => box.value));
  const { benchmark, case: testCase } = form.elements;
  return series.filter((one) => shown.has(one.implementation)
    && (benchmark.value === "" || one.benchmark === benchmark.value)
    && (testCase.value === "" || one.case === testCase.value));
}

/** Returns one value of a series as the chart's columns have it; `age` is 0 for the newest, towards 1 for the oldest. */
function point(one, seconds, commit, age) {
  return {
    x: one.flop / one.bytes, y: one.flop / seconds / 1e9, alpha: 1 - 0.85 * age, size: age === 0 ? 11 : 6,
    kernel: one.kernel, case: one.case, implementation: one.implementation,
    commit: commit.sha.slice(0, 8), subject: commit.subject, page: commit.page,
    intensity: Numbers.intensity(one.flop / one.bytes, one.operation),
    rate: Numbers.rate(one.flop / seconds / 1e9, one.operation),
    bandwidth: Numbers.gigabytes(one.bytes / seconds / 1e9),
    efficiency: one.least === null ? "no roofs" : one.apart?.includes(commit.sha) ? "other threads" : Numbers.efficiency(Math.min(one.least / seconds, 1)),
    bound: one.bound, time: Numbers.seconds(seconds),
  };
}

/** Returns the points of a series, oldest first, from its own data; only the newest without. */
function points(one, data, commits) {
  const commit = (sha) => commits.get(sha) ?? { sha, subject: "", page: `commit-${sha.slice(0, 8)}.html` };
  if (data === null) return [point(one, one.seconds, commit(one.commit), 0)];
  const known = data.commit.map((sha, index) => [sha, data.seconds[index]]).filter(([, seconds]) => seconds !== null);
  const last = known.length - 1;
  return known.map(([sha, seconds], index) => point(one, seconds, commit(sha), index === last ? 0 : 1 - index / last));
}

function columns(rows, names) {
  return Object.fromEntries(names.map((name) => [name, rows.map((row) => row[name])]));
}

/** Draws the series; `paths` holds the points of each. */
function draw(section, plot, series, paths) {
  const found = sources(plot);
  const colours = new Map([...section.querySelectorAll("[data-colour]")].map((box) => [box.value, box.dataset.colour]));
  const kinds = [...new Set(series.map((one) => `${one.kernel} ${one.case}`))];
  const dress = (one, row) => ({
    ...row, colour: colours.get(one.implementation),
    mark: MARKS[kinds.indexOf(`${one.kernel} ${one.case}`) % MARKS.length],
  });
  const rows = paths.flatMap((path, index) => path.map((row) => dress(series[index], row)));
  found.points.data = columns(rows, Object.keys(found.points.data));
  found.paths.data = {
    xs: paths.map((path) => path.map((row) => row.x)), ys: paths.map((path) => path.map((row) => row.y)),
    colour: series.map((one) => colours.get(one.implementation)),
  };
  nameNewest(plot, found.names, series, paths);
  tell(section, paths);
}

/** Writes beside the newest point of each series what tells it from the others. */
function nameNewest(plot, source, series, paths) {
  const single = (name) => new Set(series.map((one) => one[name])).size < 2;
  const parts = ["kernel", "implementation", "case"].filter((name) => name === "implementation" || !single(name));
  const named = series.length <= MOST_PATHS ? paths.filter((path) => path.length) : [];
  const newest = named.map((path) => path[path.length - 1]);
  const types = new Set(series.map((one) => one.case.split("-")[0]));
  const size = (text) => (types.size < 2 ? text.split("-").slice(1).join("-") || text : text);
  const text = newest.map((row) => parts.map((name) => (name === "case" ? size(row.case) : row[name])).join(" ").slice(0, 48));
  const put = () => {
    const [x, y] = [newest.map((row) => row.x), newest.map((row) => row.y)];
    source.data = { x, y, text, ...RooflineLabels.placed(plot, newest, text) };
  };
  put();
  renamed.set(plot, put); // where there is another width, there is another room for them
}

const renamed = new Map(); // plot -> what places its labels anew

/** Fills the table of what is drawn, newest commits first. */
function tell(section, paths) {
  const rows = paths.flatMap((path) => [...path].reverse().map((row, back) => ({ row, back })));
  rows.sort((one, other) => one.back - other.back); // the newest of each series, then the one before it
  const cells = rows.slice(0, MOST_ROWS).map(({ row }) => [
    make("a", { class: "sha", href: row.page }, row.commit), foreign(row.kernel), foreign(row.implementation), foreign(row.case),
    row.rate, row.efficiency, row.intensity, row.bandwidth, row.time,
  ]);
  const behind = section.querySelector(".behind-chart");
  behind.hidden = rows.length === 0;
  behind.querySelector("summary").textContent = rows.length > MOST_ROWS ? `The points as a table, the newest ${MOST_ROWS} of ${Numbers.count(rows.length)}` : "The points as a table";
  behind.querySelector(".scroll").replaceChildren(
    table(["commit", "kernel", "implementation", "test case", "rate", "efficiency", "intensity", "bandwidth", "time"], cells),
  );
}

function said(series, withPaths) {
  if (series.length === 0) return "No series of that choice has a place in the plot: the table says why.";
  return withPaths ? "" : `${series.length} series: only the newest value of each is drawn. Choose a kernel and a test case to see the way there.`;
}

/** Shows the rows of these series, and their footnotes, which keep their numbers. */
function sift(section, names) {
  const used = new Set();
  for (const row of section.querySelectorAll("tr[data-series]")) {
    row.hidden = !names.has(row.dataset.series);
    if (!row.hidden) for (const mark of row.dataset.marks.split(" ")) used.add(mark);
  }
  section.querySelectorAll(".footnotes li").forEach((note, index) => {
    note.value = index + 1;
    note.hidden = !used.has(String(index + 1));
  });
}

async function show(section, plot, data, turn) {
  const form = section.querySelector("form");
  const asked = chosen(form, data.series);
  const names = new Set(asked.map((one) => one.name));
  sift(section, names);
  const placed = asked.filter((one) => one.flop && one.bytes);
  const withPaths = form.elements.benchmark.value !== "" && placed.length <= MOST_PATHS;
  const lists = await KV.load("commits").then((found) => found.commits, () => []);
  const commits = new Map(lists.map((commit) => [commit.sha, commit]));
  const load = (one) => Series.load(one.name).catch(() => null);
  const loaded = await Promise.all(placed.map((one) => (withPaths ? load(one) : null)));
  if (turn.now !== turn.asked) return; // the reader has chosen again
  draw(section, plot, placed, placed.map((one, index) => points(one, loaded[index], commits)));
  const lost = withPaths && loaded.includes(null);
  section.querySelector(".status").textContent = lost ? "Older values cannot be loaded: the newest are drawn." : said(placed, withPaths);
  Address.tell(section.querySelector(".missed"), missedBy(section));
  section.dataset.ready = "yes";
}

/** Test cases that the chosen kernel does not have are no choice. */
function offer(form, series) {
  const { benchmark, case: select } = form.elements;
  const known = new Set(series.filter((one) => [one.benchmark, ""].includes(benchmark.value)).map((one) => one.case));
  for (const option of select.options) option.hidden = option.disabled = option.value !== "" && !known.has(option.value);
  if (select.selectedOptions.length === 0 || select.selectedOptions[0].disabled) select.value = "";
}

// ---- what the reader chose, in the address -------------------------------------------------------------------------

const PLACE = ["machine", "environment", "device"];
const WORDS = { benchmark: "kernel", case: "test case", implementation: "implementation" };
const CHOICES = Object.keys(WORDS);
const NONE = ""; // the implementation that stands for none of them

/** Returns what the address says, a group for each section that it speaks of: a second machine begins a second group. */
function groups() {
  const found = [];
  for (const [name, value] of Address.read()) {
    if (found.length === 0 || (name === PLACE[0] && found.at(-1).has(name))) found.push(new URLSearchParams());
    found.at(-1).append(name, value);
  }
  return found.filter((asked) => [...PLACE, ...CHOICES].some((name) => asked.has(name)));
}

/** Returns whether a group of the address speaks of a section. */
function isOf(section, asked) {
  return PLACE.every((name) => !asked.has(name) || asked.get(name) === section.dataset[name]);
}

/** Returns what the address asks of a section; undefined where it speaks of others. */
function askedOf(section) {
  return groups().find((asked) => isOf(section, asked));
}

function boxesOf(section) {
  return [...section.querySelectorAll("[name=implementation]")];
}

/** Returns what the address asks of a section and its form does not show, as Address.missed takes it. */
function missedBy(section) {
  const asked = askedOf(section) ?? new URLSearchParams();
  const { elements } = section.querySelector("form");
  const shown = (name) => (name === "implementation" ? [NONE, ...boxesOf(section).map((box) => box.value)] : [elements[name].value]);
  const others = asked.has(PLACE[0]) ? [] : sections.filter((one) => one !== section); // of no machine: any may have it
  const has = (one, name, value) => [...one.querySelectorAll(`[name=${name}], [name=${name}] option`)].some((field) => field.value === value);
  return CHOICES.flatMap((name) => asked.getAll(name)
    .filter((value) => !shown(name).includes(value) && !others.some((one) => has(one, name, value)))
    .map((value) => [WORDS[name], value]));
}

/** Says which machines the address names that are not here; what else is not there, the sections say. */
function tellGone() {
  const gone = groups().filter((asked) => sections.every((section) => !isOf(section, asked)));
  const named = gone.flatMap((asked) => PLACE.flatMap((name) => asked.getAll(name).map((value) => [name, value])));
  const unknown = named.filter(([name, value]) => sections.every((section) => section.dataset[name] !== value));
  Address.tell(document.getElementById("missed"), unknown.length ? unknown : named);
}

/** Returns what a section's form says, as the address does. */
function chosenOf(section) {
  const form = section.querySelector("form");
  const boxes = boxesOf(section);
  const shown = boxes.filter((box) => box.checked).map((box) => box.value);
  const found = [...PLACE.map((name) => [name, section.dataset[name]]), ...["benchmark", "case"].map((name) => [name, form.elements[name].value])];
  if (shown.length < boxes.length) for (const name of shown.length ? shown : [NONE]) found.push(["implementation", name]);
  return found;
}

/** Puts the choice of a section, then those of the others, into the address, as a step of the reader's way. */
function remember(section) {
  section.dataset.chosen = "yes";
  const others = sections.filter((one) => one !== section && one.dataset.chosen);
  Address.write(new URLSearchParams([section, ...others].flatMap(chosenOf)), true);
  tellGone();
}

/** Sets the form as the address says, or as it began; returns whether the address brings its reader to this section. */
function recall(section) {
  const form = section.querySelector("form");
  const all = groups();
  if (all.length === 0 && window.location.hash !== "") return false; // an anchor chooses nothing
  form.reset();
  const asked = askedOf(section);
  section.dataset.chosen = asked === undefined ? "" : "yes";
  if (asked === undefined) return false;
  for (const name of ["benchmark", "case"]) Address.set(form.elements[name], asked.get(name), form.elements[name].value);
  const boxes = boxesOf(section);
  const wanted = asked.getAll("implementation").filter((name) => name === NONE || boxes.some((box) => box.value === name));
  for (const box of boxes) box.checked = !wanted.length || wanted.includes(box.value);
  return asked === all[0] && asked.has("machine");
}

// ---- the start -----------------------------------------------------------------------------------------------------

const updates = new Map(); // section -> what draws it anew

async function start(section) {
  const data = await KV.load(section.dataset.file);
  const form = section.querySelector("form");
  const turn = { now: 0 };
  const item = JSON.parse(section.querySelector("script.chart-document").textContent);
  const view = await ChartPaint.embed(item, section.querySelector(".chart"));
  const plot = view.model;
  const update = () => {
    offer(form, data.series);
    const asked = (turn.now += 1);
    return show(section, plot, data, { get now() { return turn.now; }, asked });
  };
  ChartPaint.follow(plot, () => paintNames(plot));
  plot.properties.inner_width.change.connect(() => renamed.get(plot)?.());
  form.addEventListener("change", () => {
    offer(form, data.series); // before the choice is said in the address: what the kernel does not have is none
    remember(section);
    update();
  });
  updates.set(section, update);
  if (recall(section)) section.scrollIntoView();
  await update();
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    start(entry.target).catch((error) => { entry.target.querySelector(".status").textContent = error.message; });
  }
}, { rootMargin: "400px" });
const sections = [...document.querySelectorAll("section.roofline")];
for (const section of sections) seen.observe(section);
window.addEventListener("hashchange", () => {
  for (const section of sections) recall(section);
  tellGone();
  for (const update of updates.values()) update();
});
// an address that speaks of a section far below brings its reader there
const [target] = sections.filter((section) => recall(section));
tellGone();
if (target) target.scrollIntoView();
