// compare.html: two sides chosen in a form that lives in the URL, and what they are compared by.
"use strict";

const MOST_ROWS = 300; // rows before the reader is asked whether he wants all
const MOST_OFFERED = 40; // commits that are offered for what was typed
const REDRAW = 250; // ms between drawings while series come in, at least; and
const SHARE = 10; // times what the last drawing took, so that drawing does not keep them from coming in
const MANY = 200; // series that are waited for before the reader is told how to wait for fewer

const page = Object.fromEntries(
  ["choice", "progress", "problems", "result", "summary", "means", "rows", "none", "more", "footnotes"].map((id) => [id, document.getElementById(id)]),
);
const state = { commits: [], order: new Map(), places: [], series: [], chosen: null, run: 0, all: false, shown: [] };

// --- the result -----------------------------------------------------------------------------------------------------

function draw() {
  const { chosen } = state;
  const words = chosen.text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (row) => words.every((word) => Rows.name(row).toLowerCase().includes(word));
  const found = Rows.of(chosen, Choice.pairs(chosen, state.series), state.order).filter(fits);
  const rows = Rows.sorted(found, chosen.sort);
  const known = rows.filter((row) => row.said.ratio !== undefined);
  const drawn = state.all ? rows : rows.slice(0, MOST_ROWS);
  const notes = new Map();
  page.rows.querySelector("tbody").replaceChildren(...drawn.map((row) => Tables.caseRow(row, chosen.unit, notes)));
  page.footnotes.replaceChildren(...Tables.footnotes(notes).map((text) => Tables.element("li", text)));
  page.means.querySelector("tbody").replaceChildren(...Tables.meanRows(known));
  page.means.hidden = known.length === 0;
  page.summary.textContent = Tables.sentence(known, rows, Choice.isOne(chosen));
  page.none.hidden = rows.length > 0;
  page.more.hidden = drawn.length === rows.length;
  page.more.textContent = `show all ${rows.length} test cases`;
  page.result.hidden = false;
  state.shown = rows;
}

function tell(problems) {
  page.problems.replaceChildren(...problems.map((text) => Tables.element("li", text)));
  page.problems.hidden = problems.length === 0;
}

/** Loads what the choice asks for and draws it; while series come in, what is there already. */
async function refresh(problems) {
  const run = (state.run += 1);
  const versions = Choice.pairs(state.chosen, state.series).flat(2);
  const names = new Set(versions.filter((one) => one !== null).map((one) => one.name));
  let due = performance.now() + REDRAW;
  tell(problems);
  document.body.dataset.ready = "no";
  const failed = await Rows.load([...names], state.order, () => state.run === run, (done, whole) => {
    const hint = whole > MANY && state.chosen.kernel === "" ? "; choose a kernel to wait for fewer" : "";
    page.progress.textContent = `${done} of ${whole} series loaded${hint}`;
    const began = performance.now();
    if (began < due) return;
    draw();
    due = performance.now() + Math.max(REDRAW, SHARE * (performance.now() - began));
  });
  if (failed === null) return; // something else was chosen meanwhile
  page.progress.textContent = "";
  if (failed > 0) tell([...problems, `${failed} series could not be loaded: their files in data/ are missing or damaged.`]);
  draw();
  document.body.dataset.ready = "yes";
}

// --- the form -------------------------------------------------------------------------------------------------------

function options(select, pairs) {
  select.replaceChildren(...pairs.map(([value, text]) => Tables.element("option", text, { value })));
}

const commitText = (commit) => `${commit.sha.slice(0, 8)} ${commit.subject}`;
const dateAndTags = (commit) => `${commit.date.slice(0, 10)}${commit.tags.length ? ` (${commit.tags.join(", ")})` : ""}`;

function fillForm() {
  const { elements } = page.choice;
  const names = Choice.implementations(state.series).map((name) => [name, name]);
  const kernels = [...new Set(state.series.map(Choice.kernelName))].sort();
  for (const letter of ["a", "b"]) {
    options(elements[`${letter}p`], state.places.map((place, number) => [String(number), Choice.placeName(place)]));
    options(elements[`${letter}i`], [[Choice.EACH, "each"], ...names]);
    offer(letter, "");
  }
  options(elements.kernel, [["", "all"], ...kernels.map((name) => [name, name])]);
}

/** Offers the commits that a text could mean. */
function offer(letter, text) {
  const found = Choice.matching(state.commits, text, MOST_OFFERED);
  const made = found.map((commit) =>
    Tables.element("option", `${commit.author}, ${dateAndTags(commit)}`, { value: commitText(commit) }),
  );
  document.getElementById(`commits-${letter}`).replaceChildren(...made);
}

function showSide(letter, own) {
  const { elements } = page.choice;
  const side = state.chosen[letter];
  const commit = state.commits[state.order.get(side.commit)];
  elements[letter].value = commitText(commit);
  elements[`${letter}p`].value = String(side.place);
  elements[`${letter}i`].value = side.implementation;
  const fields = page.choice.querySelector(`[data-side=${letter}]`);
  const line = fields.querySelector(".chosen");
  const link = Tables.element("a", commit.sha.slice(0, 8), { class: "sha", href: commit.page });
  const who = Tables.element("span", ` ${dateAndTags(commit)}`, { class: "who" });
  who.prepend(" ", Tables.element("bdi", commit.author), ",");
  line.replaceChildren(link, " ", Tables.element("bdi", commit.subject), who);
  const shared = letter === "a" ? [] : Choice.PARTS.filter((name) => !own.includes(name));
  for (const name of Choice.PARTS) fields.querySelector(`.${name}-field`).hidden = shared.includes(name);
  line.hidden = shared.includes("commit");
  fields.querySelector(".shared").textContent = shared.length ? `The same ${shared.join(" and ").replace("place", "machine")} as A.` : "";
}

function showChosen() {
  const { elements } = page.choice;
  for (const name of ["kernel", "unit", "sort", "text"]) {
    if (elements[name].value !== state.chosen[name]) elements[name].value = state.chosen[name];
  }
  elements.mode.value = state.chosen.mode;
  for (const letter of ["a", "b"]) showSide(letter, Choice.OWN[state.chosen.mode]);
}

/** Takes up a choice; `isStep`: the reader's way back leads to the one before. */
function choose(changed, problems = [], isStep = true) {
  state.chosen = Choice.settled({ ...state.chosen, ...changed }, state.places, state.series);
  state.all = false;
  Address.write(Choice.write(state.chosen, state.places), isStep);
  showChosen();
  refresh([...problems, ...unmeasured()]);
}

/** Returns what to say of sides whose machine has not measured their commit. */
function unmeasured() {
  const said = ["a", "b"].map((letter) => state.chosen[letter]).flatMap(({ commit, place }) => {
    const { sha, places } = state.commits[state.order.get(commit)];
    if (places.includes(place)) return [];
    return [`${sha.slice(0, 8)} was not measured on ${Choice.placeName(state.places[place])}: the arrows lead to commits that were.`];
  });
  return [...new Set(said)];
}

/** Takes up what was typed for a commit. */
function chooseCommit(letter, text) {
  const commit = Choice.resolve(state.commits, text) ?? onlyOne(Choice.matching(state.commits, text, 2));
  if (commit) choose({ [letter]: { ...state.chosen[letter], commit: commit.sha } });
  else choose({}, [`No measured commit, or more than one, is meant by “${text}”: type more of its hash or message.`]);
}

const onlyOne = (items) => (items.length === 1 ? items[0] : null);

function onChange({ target: { name, value } }) {
  const side = state.chosen[name[0]];
  if (["kernel", "unit", "sort", "mode"].includes(name)) choose({ [name]: value });
  else if (name === "ap" || name === "bp") choose({ [name[0]]: { ...side, place: Number(value) } });
  else if (name === "ai" || name === "bi") choose({ [name[0]]: { ...side, implementation: value } });
  else if (name === "a" || name === "b") chooseCommit(name, value);
}

function onInput({ target: { name, value } }) {
  if (name === "a" || name === "b") offer(name, value);
  if (name !== "text") return;
  state.chosen = { ...state.chosen, text: value };
  Address.write(Choice.write(state.chosen, state.places));
  draw();
}

function step(button) {
  const { side: letter } = button.closest("[data-side]").dataset;
  const { commit: from, place } = state.chosen[letter];
  const commit = Choice.next(state.commits, state.order.get(from), Number(button.dataset.step), place);
  if (commit) choose({ [letter]: { ...state.chosen[letter], commit: commit.sha } });
}

// --- what leaves the page -------------------------------------------------------------------------------------------

function save() {
  const { a, b } = state.chosen;
  const url = URL.createObjectURL(new Blob([Csv.of(state.shown, state.chosen, state.places)], { type: "text/csv;charset=utf-8" }));
  const name = `compare-${a.commit.slice(0, 8)}-${b.commit.slice(0, 8)}.csv`;
  Tables.element("a", "", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// --- the start ------------------------------------------------------------------------------------------------------

function fromUrl() {
  const gone = [];
  const chosen = Choice.read(Address.read(), state, gone);
  choose(chosen, gone.length ? [Address.missed(gone)] : [], false);
}

function listen() {
  const { choice } = page;
  choice.addEventListener("change", onChange);
  choice.addEventListener("input", onInput);
  choice.addEventListener("submit", (event) => event.preventDefault());
  choice.addEventListener("click", ({ target }) => { if (target.dataset.step) step(target); });
  document.getElementById("swap").addEventListener("click", () => choose({ a: state.chosen.b, b: state.chosen.a }));
  document.getElementById("link").addEventListener("click", ({ target }) => copyAndSay(target, location.href));
  document.getElementById("save").addEventListener("click", save);
  page.more.addEventListener("click", () => { state.all = true; draw(); });
  window.addEventListener("hashchange", fromUrl);
}

async function start() {
  try {
    const [commits, index] = await Promise.all([KV.load("commits"), KV.load("series-index")]);
    Object.assign(state, { commits: commits.commits, places: index.places, series: index.series });
  } catch (error) {
    tell([`${error.message}: write the site again (kv report).`]);
    return;
  }
  if (state.commits.length === 0) {
    tell(["No commit of the first-parent line was measured, so there is nothing to compare."]);
    return;
  }
  state.order = new Map(state.commits.map((commit, number) => [commit.sha, number]));
  state.series.sort((one, other) => other.version.localeCompare(one.version, "en", { numeric: true })); // newest first
  fillForm();
  page.choice.hidden = false;
  listen();
  fromUrl();
}

start();
