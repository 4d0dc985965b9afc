// The home page: filters, which live in the address (#kernel=matmul&device=Cpu), and how long ago things were.
// Without this script everything is visible.
"use strict";

const NAMES = ["machine", "device", "kernel", "state", "implementation"];
const AGES = [["day", 86400], ["hour", 3600], ["minute", 60]];
const form = document.querySelector("form.filters");

/** Shows what the address asks for. A value that the page lacks becomes an option that says so. */
function follow() {
  const query = Address.read();
  for (const select of form.querySelectorAll("select")) {
    const value = query.get(select.name) ?? "";
    select.querySelector("option.gone")?.remove();
    if (![...select.options].some((option) => option.value === value)) {
      select.add(make("option", { class: "gone", value }, `${value} (not here)`));
    }
    select.value = value;
  }
  const wanted = NAMES.filter((name) => query.get(name));
  const rows = [...document.querySelectorAll(".grid tbody tr")];
  for (const row of rows) {
    const labels = { ...row.closest(".grid").dataset, ...row.dataset };
    row.hidden = wanted.some((name) => labels[name] !== query.get(name));
  }
  for (const grid of document.querySelectorAll(".grid")) grid.hidden = grid.querySelector("tbody tr:not([hidden])") === null;
  const hidden = rows.filter((row) => row.hidden).length;
  const count = form.querySelector("output");
  count.textContent = hidden === 0 ? `all ${rows.length} rows shown` : `${rows.length - hidden} rows shown, ${hidden} hidden`;
  count.classList.toggle("none", hidden === rows.length);
}

/** Puts the form's choice into the address, as a step of the history. */
function choose() {
  Address.write(new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== "")), true);
  follow();
}

if (form !== null) {
  form.hidden = false;
  form.addEventListener("change", choose);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(choose)); // after the fields were reset
  window.addEventListener("hashchange", follow);
  follow();
}

// The page may have been written long before it is read
for (const time of document.querySelectorAll("time[datetime]")) {
  const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
  const [unit, length] = AGES.find(([, size]) => seconds >= size) ?? [];
  if (unit) time.append(span("age", ` (${new Intl.RelativeTimeFormat("en").format(-Math.floor(seconds / length), unit).replaceAll(",", "")})`));
}
