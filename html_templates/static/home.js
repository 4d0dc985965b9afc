// The table of the overview: find, sort by a column, show all. The choice lives in the address (#q=matmul&sort=2).
// The page has the worst SHOWN rows; data/home-rows.js has the others, which are loaded when a choice needs them.
"use strict";

const SHOWN = 100; // rows at once, as in the page
const form = document.querySelector("form.filters");

if (form !== null) {
  const field = form.querySelector("input");
  const output = form.querySelector("output");
  const all = document.getElementById("all");
  const tableOfRows = document.querySelector("tr[data-order]").closest("table");
  const [body] = tableOfRows.tBodies;
  const worstFirst = [...body.rows];
  const heads = [...tableOfRows.tHead.rows[0].cells];
  let isWhole = false;
  let isComplete = all === null; // whether worstFirst has every row

  /** Adds the rows that the page leaves out. They are HTML of the template that made the page's own. */
  async function complete() {
    const others = document.createElement("template");
    others.innerHTML = await KV.load("home-rows");
    if (!isComplete) worstFirst.push(...others.content.querySelectorAll("tr"));
    isComplete = true;
  }

  /** Compares two rows by a column; what has no number comes last in either direction. */
  function comparison(column, sign) {
    if (column === 0) return (a, b) => sign * a.dataset.search.localeCompare(b.dataset.search, "en", { numeric: true });
    const numbers = new Map(worstFirst.map((row) => [row, Number(row.dataset.order.split(" ")[column - 1])])); // after the names
    return (a, b) => {
      const [left, right] = [numbers.get(a) ?? NaN, numbers.get(b) ?? NaN];
      if (Number.isNaN(left) || Number.isNaN(right)) return Number(Number.isNaN(left)) - Number(Number.isNaN(right));
      return sign * (left - right);
    };
  }

  /** Shows what the address asks for. */
  async function follow() {
    const isPlain = !isWhole && !Address.read().has("q") && !Address.read().has("sort");
    if (!isComplete && !isPlain) await complete().catch(({ message }) => { output.textContent = message; });
    const query = Address.read();
    if (field !== document.activeElement) field.value = query.get("q") ?? "";
    const words = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const [column, sign] = [Number(query.get("sort")), query.has("down") ? -1 : 1];
    const rows = worstFirst.filter((row) => words.every((word) => row.dataset.search.includes(word)));
    if (query.has("sort")) rows.sort(comparison(column, sign));
    const shown = isWhole ? rows : rows.slice(0, SHOWN);
    body.replaceChildren(...shown);
    heads.forEach((head, index) => {
      if (query.has("sort") && index === column) head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    if (isComplete) output.textContent = words.length ? `${rows.length} of ${worstFirst.length} match` : "";
    output.classList.toggle("none", rows.length === 0);
    if (all) all.hidden = isComplete && shown.length === rows.length;
  }

  /** Sorts by a column: ascending, then descending, then worst first again. */
  function sort(column) {
    const query = Address.read();
    const was = query.get("sort") === String(column) ? (query.has("down") ? "down" : "up") : "";
    query.delete("sort");
    query.delete("down");
    if (was !== "down") query.set("sort", String(column));
    if (was === "up") query.set("down", "1");
    Address.write(query, true);
    follow();
  }

  heads.slice(0, -1).forEach((head, column) => {
    const button = make("button", { type: "button" }, ...head.childNodes);
    button.addEventListener("click", () => sort(column));
    head.replaceChildren(button);
  });
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("input", () => {
    const query = Address.read();
    if (field.value) query.set("q", field.value);
    else query.delete("q");
    Address.write(query);
    follow();
  });
  all?.addEventListener("click", () => { isWhole = true; follow(); });
  window.addEventListener("hashchange", follow);
  window.addEventListener("popstate", follow);
  if (all) all.hidden = false;
  if (window.location.hash.includes("=")) follow();
}
