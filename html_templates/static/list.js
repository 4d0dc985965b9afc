// Lists with filters, which live in the address (#kernel=matmul&device=Cpu). Without this
// script everything is visible. A filter x asks for a name in data-x of a row or of what holds it, a line for each name.
// The form's data-rows selects the rows: of tables, or parts of a chart. A field's data-within names one that narrows it.
"use strict";

const filters = document.querySelector("form.filters");
const choices = filters === null ? [] : [...filters.querySelectorAll("select, input")];
const rows = filters === null ? [] : [...document.querySelectorAll(filters.dataset.rows)];
const usual = (field) => field.options?.[0].value ?? ""; // which the address leaves out

function fits(row, { name, value, type }) {
  const labels = row.closest(`[data-${name}]`)?.dataset[name] ?? "";
  if (type === "search") return value.toLowerCase().split(/\s+/).every((word) => labels.includes(word));
  return value === "" || labels === value || labels.split("\n").includes(value);
}

/** Offers of a field with data-within only what the field that it names leaves. */
function narrow({ name, type, options, dataset }) {
  const within = choices.find((field) => field.name === dataset.within);
  if (within === undefined) return;
  const left = rows.filter((row) => fits(row, within));
  for (const option of options) option.disabled = option.hidden = !left.some((row) => fits(row, { name, type, value: option.value }));
}

/** Shows what the address asks for. A value that the page lacks becomes an option that says so. */
function follow() {
  const query = Address.read();
  for (const field of choices) {
    const value = query.get(field.name) ?? usual(field);
    field.querySelector("option.gone")?.remove();
    if (field.options && ![...field.options].some((option) => option.value === value)) {
      field.add(make("option", { class: "gone", value }, `${value} (not here)`));
    }
    field.value = value;
  }
  choices.forEach(narrow);
  for (const row of rows) row.toggleAttribute("hidden", !choices.every((field) => fits(row, field))); // of SVG, too
  const listed = rows.filter((row) => row.matches("tr"));
  for (const part of document.querySelectorAll("section.roofline")) part.hidden = part.querySelector("tbody tr:not([hidden])") === null;
  const shown = listed.filter((row) => !row.hidden).length;
  const count = filters.querySelector("output");
  count.textContent = `${shown} of ${listed.length} shown`;
  count.classList.toggle("none", shown === 0);
}

/** Puts the form's choice into the address; typing adds no steps to the history. */
function choose({ target }) {
  choices.forEach(narrow);
  for (const field of choices) if (field.selectedOptions?.[0].disabled) field.value = usual(field);
  const changed = choices.filter((field) => field.value !== usual(field)).map(({ name, value }) => [name, value]);
  Address.write(new URLSearchParams(changed), target.type !== "search");
  follow();
}

if (filters !== null) {
  filters.hidden = false;
  filters.addEventListener("input", choose);
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("reset", (event) => setTimeout(choose, 0, event)); // after the fields were reset
  window.addEventListener("hashchange", follow);
  follow();
}
