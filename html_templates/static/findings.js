// The list of findings: filters that live in the URL, so that a view of the list is a link.
"use strict";

const FILTERS = { state: "open", kind: "", machine: "", text: "" }; // what stands in no URL

function fits(row, chosen) {
  const { state, open, kind, machines, text } = row.dataset;
  return (
    (chosen.state === "" || (chosen.state === "open" ? open === "yes" : state === chosen.state)) &&
    (chosen.kind === "" || kind === chosen.kind) &&
    (chosen.machine === "" || JSON.parse(machines).includes(chosen.machine)) &&
    chosen.text.toLowerCase().split(/\s+/).every((word) => text.includes(word))
  );
}

/** Puts what the URL says into the form; of a value that the form does not have, the page says so. */
function fromUrl(form) {
  const said = Address.read();
  for (const [name, usual] of Object.entries(FILTERS)) Address.set(form.elements[name], said.get(name), usual);
  const gone = Object.keys(FILTERS).filter((name) => said.has(name) && said.get(name) !== form.elements[name].value);
  Address.tell(document.getElementById("missed"), gone.map((name) => [name, said.get(name)]));
}

/** Puts what was chosen into the URL; what is being typed is no step of the reader's way. */
function toUrl(chosen, isStep) {
  Address.write(new URLSearchParams(Object.entries(chosen).filter(([name, value]) => value !== FILTERS[name])), isStep);
}

function show(form, rows) {
  const chosen = Object.fromEntries(Object.keys(FILTERS).map((name) => [name, form.elements[name].value]));
  let shown = 0;
  for (const row of rows) {
    row.hidden = !fits(row, chosen);
    shown += row.hidden ? 0 : 1;
  }
  document.getElementById("none").hidden = shown > 0;
  document.getElementById("count").value = `${shown} of ${rows.length} shown`;
  return chosen;
}

const form = document.getElementById("filters");
if (form) {
  const rows = [...document.querySelectorAll("tr[data-state]")];
  form.hidden = false;
  fromUrl(form);
  show(form, rows);
  form.addEventListener("input", ({ target }) => {
    Address.tell(document.getElementById("missed"), []);
    toUrl(show(form, rows), target.name !== "text");
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", () => {
    fromUrl(form);
    show(form, rows);
  });
}
