// The list of findings: filters that live in the address.
"use strict";

const FILTERS = { state: "open", kind: "", machine: "", text: "" }; // defaults, which the address leaves out
const form = document.getElementById("filters");

function fits(row, { state, kind, machine, text }) {
  const { dataset } = row;
  return (state === "" || (state === "open" ? dataset.open === "yes" : dataset.state === state))
    && (kind === "" || dataset.kind === kind)
    && (machine === "" || JSON.parse(dataset.machines).includes(machine))
    && text.toLowerCase().split(/\s+/).every((word) => dataset.text.includes(word));
}

/** Shows the rows that the form asks for; returns its choice. */
function show() {
  const chosen = Object.fromEntries(new FormData(form));
  const rows = [...document.querySelectorAll("tr[data-state]")];
  for (const row of rows) row.hidden = !fits(row, chosen);
  const shown = rows.filter((row) => !row.hidden).length;
  document.getElementById("none").hidden = shown > 0;
  document.getElementById("count").value = `${shown} of ${rows.length} shown`;
  return chosen;
}

/** Sets the form as the address says, and names what the page lacks. */
function follow() {
  const query = Address.read();
  for (const [name, usual] of Object.entries(FILTERS)) Address.set(form.elements[name], query.get(name), usual);
  const gone = Object.keys(FILTERS).filter((name) => query.has(name) && query.get(name) !== form.elements[name].value);
  Address.tell(document.getElementById("missed"), gone.map((name) => [name, query.get(name)]));
  show();
}

if (form) {
  form.hidden = false;
  follow();
  form.addEventListener("input", ({ target }) => {
    Address.tell(document.getElementById("missed"), []);
    const changed = Object.entries(show()).filter(([name, value]) => value !== FILTERS[name]);
    Address.write(new URLSearchParams(changed), target.name !== "text"); // typing adds no steps to the history
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", follow);
}
