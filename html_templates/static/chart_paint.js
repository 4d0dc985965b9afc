// Paints charts as the page is painted, light or dark: they are canvases, which no style reaches.
"use strict";

const ChartPaint = (() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  /** Returns a colour of the page, by the name of its variable (style.css). */
  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function paintAxes(plot) {
    const [ink, rule] = [colour("--muted"), colour("--rule")];
    for (const part of [...plot.below, ...plot.left]) {
      part.setv({
        axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: rule,
        major_tick_line_color: rule, minor_tick_line_color: null, axis_label_text_font_style: "normal",
      });
    }
    for (const part of plot.center) {
      if ("grid_line_color" in part) part.grid_line_color = rule;
      if ("text_color" in part) part.text_color = ink;
    }
  }

  /** Paints a plot's axes and grid, and what `rest` paints, now and whenever the reader's scheme changes. */
  function follow(plot, rest = () => {}) {
    const paint = () => { paintAxes(plot); rest(); };
    paint();
    dark.addEventListener("change", paint);
  }

  return { colour, follow };
})();
