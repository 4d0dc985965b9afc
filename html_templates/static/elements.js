// Elements made one by one, for all pages: whatever is text is set as text, and text of others keeps its direction.
"use strict";

/** Returns an element with its children; strings become text. */
function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const foreign = (text) => make("bdi", {}, text);

/** Returns a table of rows of cells, each text or an element; the first of a row is its head. */
function table(heads, rows) {
  const row = (cells, tag) => make("tr", {}, ...cells.map((cell, index) => (tag === "th" ? make("th", { scope: "col" }, cell)
    : index === 0 ? make("th", { scope: "row" }, cell) : make("td", { class: "value" }, cell))));
  return make("table", {}, make("thead", {}, row(heads, "th")), make("tbody", {}, ...rows.map((cells) => row(cells, "td"))));
}
