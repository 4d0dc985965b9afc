// The chart of a kernel's page: embeds Bokeh's document, and puts the reader's choice into it.
// All data was made by tools/charts.py; nothing is computed here, and no text becomes HTML.
"use strict";

const dark = window.matchMedia("(prefers-color-scheme: dark)");

function parse(section, name) {
  // JSON has no NaN, which is what breaks a line of the chart where a value is missing
  const missing = (key, value) => (value === null ? NaN : value);
  const text = section.querySelector(`script.${name}`).textContent;
  return name === "chart-choices" ? JSON.parse(text, missing) : JSON.parse(text);
}

/** Colours axes and grid as the page is coloured: the chart is a canvas, which no style reaches. */
function paint(plot) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--muted").trim();
  const rule = style.getPropertyValue("--rule").trim();
  for (const part of [...plot.below, ...plot.left]) {
    part.setv({
      axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: rule,
      major_tick_line_color: rule, minor_tick_line_color: null, axis_label_text_font_style: "normal",
    });
  }
  for (const part of plot.center) {
    if ("grid_line_color" in part) part.grid_line_color = rule;
  }
}

/** Shows the chosen test case and unit, and the chosen implementations. */
function show(section, plot, choices) {
  const form = section.querySelector("form");
  const shown = new Set([...form.querySelectorAll("[name=implementation]:checked")].map((box) => box.value));
  const lines = choices[form.elements.unit.value][form.elements.case.value];
  const sources = new Set();
  for (const renderer of plot.renderers) {
    const name = renderer.data_source.name;
    renderer.visible = shown.has(name) && name in lines;
    if (name in lines) sources.add(renderer.data_source);
  }
  for (const source of sources) source.data = lines[source.name];
  plot.left[0].axis_label = form.elements.unit.value;
  for (const table of section.querySelectorAll(".case")) {
    table.hidden = table.dataset.case !== form.elements.case.value;
  }
}

async function start(section) {
  const item = parse(section, "chart-document");
  const choices = parse(section, "chart-choices");
  const [view] = await Bokeh.embed.embed_item(item, section.querySelector(".chart"));
  const plot = view.model;
  paint(plot);
  dark.addEventListener("change", () => paint(plot));
  section.querySelector("form").addEventListener("change", () => show(section, plot, choices));
  show(section, plot, choices);
  section.dataset.ready = "yes";
}

for (const section of document.querySelectorAll("section.trend")) start(section);
