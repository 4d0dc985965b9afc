// Embeds Bokeh's charts and gives them the page's colours: light, dark or on paper. No style sheet reaches a canvas.
"use strict";

const ChartPaint = (() => {
  const schemes = ["(prefers-color-scheme: dark)", "print"].map((query) => window.matchMedia(query));

  /** Returns a colour of the page by its variable in style.css. */
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function paintAxes(plot) {
    const [ink, rule] = [colour("--muted"), colour("--rule")];
    for (const axis of [...plot.below, ...plot.left]) {
      axis.setv({
        axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: rule,
        major_tick_line_color: rule, minor_tick_line_color: null, axis_label_text_font_style: "normal",
      });
    }
    for (const part of plot.center) {
      if ("grid_line_color" in part) part.grid_line_color = rule;
      if ("text_color" in part) part.text_color = ink;
    }
  }

  /** Paints axes and grid, then calls `paintRest`: now, when the colour scheme changes, and for printing. */
  function follow(plot, paintRest = () => {}) {
    const paint = () => { paintAxes(plot); paintRest(); };
    paint();
    for (const scheme of schemes) scheme.addEventListener("change", paint);
    let drawing = null; // SVG printed instead of the canvas: sharp at any size
    const print = (isPaper) => {
      document.documentElement.toggleAttribute("data-paper", isPaper);
      paint();
      const view = Bokeh.index.get_by_id(plot.id);
      if (view === undefined) return;
      view.after_resize(); // data-paper sets the width of paper (style.css)
      view.repaint(); // now: the printer waits for no frame
      drawing?.remove();
      if (!isPaper) return;
      drawing = view.export("svg").canvas;
      drawing.classList.add("paper");
      view.el.before(drawing);
    };
    window.addEventListener("beforeprint", () => print(true));
    window.addEventListener("afterprint", () => print(false));
  }

  /** Embeds a Bokeh document and returns the view of its plot. The plot has no name, so the keyboard skips it. */
  async function embed(item, host) {
    const [view] = await Bokeh.embed.embed_item(item, host);
    view.canvas_view.events_el.tabIndex = -1;
    return view;
  }

  return { colour, embed, follow };
})();
