// The home page's filters, which live in the URL (#kernel=matmul&device=Cpu), and how long ago things were.
// Without this script everything is visible. No text becomes HTML.
"use strict";

const NAMES = ["machine", "device", "kernel", "state", "implementation"];
const AGES = [["day", 86400], ["hour", 3600], ["minute", 60]];

/** Returns the filters that the URL asks for; an anchor such as #commits asks for none. */
function asked() {
  const query = Address.read();
  return new Map(NAMES.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
}

/** Puts the wanted filters into the form; a value that the page does not have is offered, and says so. */
function fill(form, wanted) {
  for (const select of form.querySelectorAll("select")) {
    const value = wanted.get(select.name) ?? "";
    select.querySelector("option.gone")?.remove();
    if (![...select.options].some((option) => option.value === value)) {
      const option = new Option(`${value} (not here)`, value);
      option.className = "gone";
      select.add(option);
    }
    select.value = value;
  }
}

/** Hides what is not wanted, and says how much that is. */
function apply(form, wanted) {
  const rows = [...document.querySelectorAll(".grid tbody tr")];
  for (const grid of document.querySelectorAll(".grid")) {
    const here = !wanted.has("machine") || grid.dataset.machine === wanted.get("machine");
    let shown = 0;
    for (const row of grid.querySelectorAll("tbody tr")) {
      row.hidden = !here || NAMES.slice(1).some((name) => wanted.has(name) && row.dataset[name] !== wanted.get(name));
      shown += !row.hidden;
    }
    grid.hidden = shown === 0;
  }
  const hidden = rows.filter((row) => row.hidden).length;
  const said = form.querySelector("output");
  said.textContent = hidden === 0 ? `all ${rows.length} rows shown` : `${rows.length - hidden} rows shown, ${hidden} hidden`;
  said.classList.toggle("none", hidden === rows.length);
}

function follow(form) {
  const wanted = asked();
  fill(form, wanted);
  apply(form, wanted);
}

/** Puts the form's choice into the URL; the page follows that. */
function choose(form) {
  const chosen = new URLSearchParams();
  for (const select of form.querySelectorAll("select")) {
    if (select.value !== "") chosen.set(select.name, select.value);
  }
  Address.write(chosen, true); // every choice is a step back in the history, as a link is
  follow(form);
}

/** Says how long ago a time was; the page may have been written long before it is read. */
function age(time) {
  const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
  const [unit, length] = AGES.find(([, size]) => seconds >= size) ?? [];
  if (unit === undefined) return;
  const count = Math.floor(seconds / length);
  const said = document.createElement("span");
  said.className = "age";
  said.textContent = ` (${count} ${unit}${count === 1 ? "" : "s"} ago)`;
  time.append(said);
}

const form = document.querySelector("form.filters");
if (form !== null) {
  form.hidden = false;
  form.addEventListener("change", () => choose(form));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => choose(form)));
  window.addEventListener("hashchange", () => follow(form));
  window.addEventListener("popstate", () => follow(form));
  follow(form);
}
for (const time of document.querySelectorAll("time[datetime]")) age(time);
