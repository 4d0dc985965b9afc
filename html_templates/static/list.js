// Lists that a form narrows: of findings, of rooflines, of the overview. The choice lives in the address
// (#kernel=matmul&sort=2). Without this script everything is visible. A field x asks for a name in data-x of a row or of what
// holds it, a line for each name; a search asks for words in it. The form's data-rows selects the rows: of tables, or parts
// of a chart. Rows with data-order, the numbers of the columns after the
// first, are sorted by a click; the form's data-more is the data file with the rows that the page leaves out.
"use strict";

const MOST = 100; // sorted rows at once, as in the page
const filters = document.querySelector("form.filters");

if (filters !== null) {
  const fields = [...filters.querySelectorAll("select, input")];
  const rows = [...document.querySelectorAll(filters.dataset.rows)];
  const sections = document.querySelectorAll("section.roofline");
  const output = filters.querySelector("output");
  const all = document.getElementById("all");
  const sorted = rows.find((row) => row.dataset.order)?.closest("table"); // whose first order is that of the page
  const heads = sorted ? [...sorted.tHead.rows[0].cells] : [];
  const usual = (field) => field.options?.[0].value ?? ""; // which the address leaves out
  let isWhole = false;
  let isComplete = all === null; // whether `rows` has every row

  /** Adds the rows that the page leaves out. They are HTML of the template that made the page's own. */
  async function complete() {
    const others = document.createElement("template");
    others.innerHTML = await KV.load(filters.dataset.more);
    if (!isComplete) rows.push(...others.content.querySelectorAll("tr"));
    isComplete = true;
  }

  function fits(row, { name, value, type }) {
    const labels = row.closest(`[data-${name}]`)?.dataset[name] ?? "";
    if (type === "search") return value.toLowerCase().split(/\s+/).every((word) => labels.includes(word));
    return value === "" || labels === value || labels.split("\n").includes(value);
  }

  /** Compares two rows by a column; what has no number comes last in either direction. */
  function comparison(column, sign) {
    const { compare } = new Intl.Collator("en", { numeric: true });
    if (column === 0) return (a, b) => sign * compare(a.dataset.q, b.dataset.q);
    const numbers = new Map(rows.map((row) => [row, Number(row.dataset.order.split(" ")[column - 1] ?? NaN)]));
    const [number, isLast] = [(row) => numbers.get(row) ?? NaN, (row) => Number(Number.isNaN(numbers.get(row)))];
    return (a, b) => sign * (number(a) - number(b)) || isLast(a) - isLast(b);
  }

  /** Sets the fields as the address says. A value that the page lacks becomes an option that says so. */
  function takeAddress(query) {
    for (const field of fields) {
      const value = query.get(field.name) ?? usual(field);
      field.querySelector("option.gone")?.remove();
      if (field.options && ![...field.options].some((option) => option.value === value)) {
        field.add(make("option", { class: "gone", value }, `${value} (not here)`));
      }
      field.value = value;
    }
  }

  /** Shows what the address asks for. */
  async function follow() {
    const isAsked = ["sort", ...fields.map(({ name }) => name)].some((name) => Address.read().has(name));
    if (!isComplete && (isWhole || isAsked)) await complete().catch(({ message }) => { output.textContent = message; });
    const query = Address.read();
    takeAddress(query);
    const fitting = rows.filter((row) => fields.every((field) => fits(row, field)));
    if (sorted) {
      const [column, sign] = [Number(query.get("sort") ?? NaN), query.has("down") ? -1 : 1];
      if (column >= 0) fitting.sort(comparison(column, sign));
      heads.forEach((head, index) => head.setAttribute("aria-sort", index !== column ? "none" : sign < 0 ? "descending" : "ascending"));
      sorted.tBodies[0].replaceChildren(...fitting.slice(0, isWhole ? rows.length : MOST));
      if (all) all.hidden = isComplete && (isWhole || fitting.length <= MOST);
    } else {
      const shown = new Set(fitting);
      for (const row of rows) row.toggleAttribute("hidden", !shown.has(row)); // of SVG, too
      for (const part of sections) part.hidden = part.querySelector("tbody tr:not([hidden])") === null;
    }
    const [count, whole] = [fitting, rows].map((list) => list.filter((row) => row.matches("tr")).length);
    if (isComplete) output.textContent = `${count} of ${whole} match`;
    output.classList.toggle("none", count === 0);
  }

  /** Puts a choice into the address as a step, but not while somebody types. */
  function choose({ target }) {
    const query = Address.read();
    for (const field of fields) {
      query.delete(field.name);
      if (field.value !== usual(field)) query.set(field.name, field.value);
    }
    Address.write(query, target.type !== "search");
    follow();
  }

  /** Sorts by a column: ascending, then descending, then as the page had it. */
  function sort(column) {
    const query = Address.read();
    const [isAgain, isLast] = [query.get("sort") === String(column), query.has("down")];
    for (const name of ["sort", "down"]) query.delete(name);
    if (!isAgain || !isLast) query.set("sort", String(column));
    if (isAgain && !isLast) query.set("down", "1");
    Address.write(query, true);
    follow();
  }

  heads.slice(0, -1).forEach((head, column) => {
    const button = make("button", { type: "button" }, ...head.childNodes);
    button.addEventListener("click", () => sort(column));
    head.replaceChildren(button);
  });
  filters.hidden = false;
  if (all) all.hidden = false;
  filters.addEventListener("input", choose);
  filters.addEventListener("submit", (event) => event.preventDefault());
  all?.addEventListener("click", () => { isWhole = true; follow(); });
  window.addEventListener("hashchange", follow);
  if (!sorted || window.location.hash.includes("=")) follow(); // else the page is as the address says
}
