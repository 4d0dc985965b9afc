// Paints charts as the page is painted, light, dark or on paper: they are canvases, which no style reaches.
"use strict";

const ChartPaint = (() => {
  const schemes = ["(prefers-color-scheme: dark)", "print"].map((query) => window.matchMedia(query));

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

  /** Paints a plot's axes and grid, and what `rest` paints, now and whenever the reader's scheme changes, or for paper. */
  function follow(plot, rest = () => {}) {
    const paint = () => { paintAxes(plot); rest(); };
    paint();
    for (const scheme of schemes) scheme.addEventListener("change", paint);
    let drawing = null; // what is printed instead of the canvas: lines, sharp at any size
    const [before, after] = [true, false].map((isPaper) => () => {
      document.documentElement.toggleAttribute("data-paper", isPaper);
      paint();
      const view = Bokeh.index.get_by_id(plot.id);
      if (view === undefined) return;
      view.after_resize(); // data-paper gives it the width of paper (style.css)
      view.repaint(); // now: the printer waits for no frame
      drawing?.remove();
      if (!isPaper) return;
      drawing = view.export("svg").canvas;
      drawing.classList.add("paper");
      view.el.before(drawing);
    });
    window.addEventListener("beforeprint", before);
    window.addEventListener("afterprint", after);
  }

  /** Embeds a document of Bokeh's; returns the view of its plot, which is no stop of the keyboard: it would have no name. */
  async function embed(item, host) {
    const [view] = await Bokeh.embed.embed_item(item, host);
    view.canvas_view.events_el.tabIndex = -1;
    return view;
  }

  return { colour, embed, follow };
})();
