// compare.html: the form, and the result that it asks for.
"use strict";

const MOST_ROWS = 300; // before the reader asks for all

const page = Object.fromEntries(["choice", "progress", "problems", "result", "summary", "means", "rows", "none", "more"].map((id) => [id, document.getElementById(id)]));
const fields = page.choice.elements;
/** @type {any} */
const state = { commits: [], places: [], series: [], chosen: null, run: 0, all: false };

function drawResult() {
  const words = state.chosen.text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ name, change }) => words.every((word) => `${name} ${change.word ?? ""}`.toLowerCase().includes(word));
  const rows = Rows.sorted(Rows.of(state.chosen, state).filter(fits), state.chosen.sort);
  const known = rows.filter((row) => row.change.ratio !== undefined);
  const drawn = state.all ? rows : rows.slice(0, MOST_ROWS);
  page.rows.querySelector("tbody").replaceChildren(...drawn.map(Rows.caseRow));
  page.means.querySelector("tbody").replaceChildren(...Rows.meanRows(known));
  page.means.hidden = known.length === 0;
  const [result, tone = ""] = Rows.sentence(known, rows);
  page.summary.textContent = result;
  page.summary.className = `verdict ${tone}`;
  page.none.hidden = rows.length > 0;
  page.more.hidden = drawn.length === rows.length;
  page.more.textContent = `show all ${rows.length} test cases`;
  page.result.hidden = false;
}

function tell(problems) {
  page.problems.replaceChildren(...problems.map((text) => make("li", {}, text)));
  page.problems.hidden = problems.length === 0;
}

/** Loads what the choice asks for, and draws it. */
async function refresh(problems) {
  const run = state.run += 1;
  const names = new Set(Choice.pairs(state.chosen, state.series).flat(2).map(({ name }) => name));
  tell(problems);
  document.body.dataset.ready = "no";
  const failed = await Rows.load([...names], () => state.run === run, (done, whole) => { page.progress.textContent = `${done} of ${whole} series loaded`; });
  if (failed === null) return; // something else was chosen meanwhile
  page.progress.textContent = "";
  if (failed > 0) tell([...problems, `${failed} series could not be loaded: their files in data/ are missing or damaged.`]);
  drawResult();
  document.body.dataset.ready = "yes";
}

/** Takes up a choice; `isStep` adds an entry to the history. */
function choose(changed, problems = [], isStep = true) {
  state.chosen = { ...state.chosen, ...changed };
  state.all = false;
  Address.write(Choice.write(state.chosen, state.places), isStep);
  for (const name of ["kernel", "sort", "text"]) if (fields[name].value !== state.chosen[name]) fields[name].value = state.chosen[name];
  const commits = Object.fromEntries(state.commits.map((commit) => [commit.sha, commit]));
  for (const letter of ["a", "b"]) {
    const side = state.chosen[letter];
    const { place } = Choice.sideOf(state.chosen, letter);
    for (const option of fields[letter].options) option.disabled = !commits[option.value].places.includes(place);
    for (const [part, value] of Object.entries({ "": side.commit, p: side.place, i: side.implementation })) fields[letter + part].value = String(value);
    page.choice.querySelector(`[data-side=${letter}] .chosen`).replaceChildren(...commitHead(commits[side.commit]));
  }
  refresh(problems);
}

/** Changes a side. With another machine or implementation, it is the same commit that is compared, until the reader says otherwise. */
function chooseSide(letter, changed) {
  const chosen = { ...state.chosen, [letter]: { ...state.chosen[letter], ...changed } };
  const { commit, place } = Choice.sideOf(chosen, "b");
  const isOther = Choice.isOther(chosen);
  if (isOther !== Choice.isOther(state.chosen)) chosen.a = { ...chosen.a, commit: isOther ? commit : Choice.before(state.commits, commit, place) };
  choose(chosen);
}

function onChange({ target: { name, value } }) {
  if (["kernel", "sort"].includes(name)) choose({ [name]: value });
  else if (/^[ab][pi]?$/.test(name)) chooseSide(name[0], { "": { commit: value }, p: { place: value && Number(value) }, i: { implementation: value } }[name.slice(1)]);
}

function onInput({ target: { name, value } }) {
  if (name !== "text") return;
  state.chosen = { ...state.chosen, text: value };
  Address.write(Choice.write(state.chosen, state.places));
  drawResult();
}

function takeAddress() {
  const gone = [];
  const chosen = Choice.read(Address.read(), state, gone);
  choose(chosen, gone.length ? [Address.missed(gone)] : [], false);
}

function fillForm() {
  const same = (texts) => texts.map((text) => [text, text]);
  const places = state.places.map(({ machine, environment }, index) => [String(index), `${isolated(machine)} · ${isolated(environment)}`]);
  const names = same([...new Set(state.series.map((item) => item.implementation).filter(Boolean))].sort());
  fill(fields.kernel, [["", "all"], ...same([...new Set(state.series.map(Choice.kernelName))].sort())]);
  for (const letter of ["a", "b"]) {
    fill(fields[letter], state.commits.map(({ sha, subject, tags }) => [sha, [sha.slice(0, 8), ...[...tags, subject.slice(0, 64)].map(isolated)].join(" ")]).reverse());
    fill(fields[`${letter}p`], letter === "a" ? places : [["", "the same as A"], ...places]);
    fill(fields[`${letter}i`], [["", letter === "a" ? "each" : "the same as A"], ...names]);
    fields[`${letter}p`].closest("label").hidden = places.length < 2;
    fields[`${letter}i`].closest("label").hidden = names.length === 0; // another suite
  }
}

async function startComparing() {
  try {
    const [commits, index] = await Promise.all([KV.load("commits"), KV.load("series-index")]);
    Object.assign(state, { commits: commits.commits, places: index.places, series: index.series });
  } catch (error) {
    return tell([`${messageOf(error)}: write the site again (kv report).`]);
  }
  if (state.commits.length === 0) return tell(["No commit of the first-parent line was measured, so there is nothing to compare."]);
  state.series.sort((a, b) => b.version.localeCompare(a.version, "en", { numeric: true })); // newest first
  fillForm();
  page.choice.hidden = false;
  page.choice.addEventListener("change", onChange);
  page.choice.addEventListener("input", onInput);
  page.choice.addEventListener("submit", (event) => event.preventDefault());
  page.more.addEventListener("click", () => { state.all = true; drawResult(); });
  window.addEventListener("hashchange", takeAddress);
  takeAddress();
}

startComparing();
