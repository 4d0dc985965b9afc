// Where the labels of a roofline plot's points go, so that each can be read: beside its point, moved up or down where a
// roof's label, another point or another label is.
"use strict";

const RooflineLabels = (() => {
  const HEIGHT = 15; // px of a line of text, and of
  const ROOM = 10; // what is left between a point and its label, and
  const MARK = 12; // a point
  const MOST_MOVES = 10; // of a label, HEIGHT / 2 each; then it lies across something
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "12px Helvetica, Arial, sans-serif"; // Bokeh's, as site/pages/roofline.py asks for it

  const width = (text) => Math.max(...text.split("\n").map((line) => pen.measureText(line).width));
  const meet = (one, other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;

  /** Returns the pixel of a point of the plot, from the upper left corner of its frame. */
  function pixel(plot, x, y) {
    const along = (value, { start, end }) => Math.log(value / start) / Math.log(end / start);
    return { x: plot.inner_width * along(x, plot.x_range), y: plot.inner_height * (1 - along(y, plot.y_range)) };
  }

  const roofs = (plot) => plot.center.filter((part) => typeof part.text === "string");

  /** Returns the box of a roof's label (site/charts/roofline.py). */
  function roofBox(plot, label, { x, y } = label) {
    const at = pixel(plot, x, y);
    const [wide, high] = [width(label.text), HEIGHT * label.text.split("\n").length];
    const left = at.x + label.x_offset - (label.text_align === "right" ? wide : 0);
    const foot = at.y - label.y_offset + (label.text_baseline === "top" ? high : 0);
    return { left, right: left + wide, top: foot - high, bottom: foot };
  }

  /** Returns the box of the level line that a label at the right stands on. */
  function levelBox(plot, { x, y }) {
    const at = pixel(plot, x, y);
    return { left: 0, right: plot.inner_width, top: at.y - 1, bottom: at.y + 1 };
  }

  /** Moves the label of DRAM's slope, which begins at the left, up its slope to where no point and no level line is. */
  function clearSlope(plot, dots) {
    const all = roofs(plot);
    const [label] = all.filter((one) => one.text_align === "left" && one.text_baseline !== "top");
    if (label === undefined) return;
    const { start, end } = plot.x_range;
    const taken = [...dots, ...all.filter((one) => one !== label).map((one) => roofBox(plot, one))];
    taken.push(...all.filter((one) => one.text_align === "right").map((one) => levelBox(plot, one)));
    const ways = Array.from({ length: MOST_MOVES }, (_, move) => start * (end / start) ** (move / (2 * MOST_MOVES)));
    const along = ways.map((x) => ({ x, y: (label.y / label.x) * x }));
    const fits = (place) => place.y < plot.y_range.end && !taken.some((one) => meet(one, roofBox(plot, label, place)));
    const { x, y } = along.find(fits) ?? along[0];
    label.setv({ x, y });
  }

  function box(at, text, side, moved) {
    const wide = width(text);
    const left = side === "left" ? at.x + ROOM : at.x - ROOM - wide;
    return { left, right: left + wide, top: at.y + moved - HEIGHT / 2, bottom: at.y + moved + HEIGHT / 2 };
  }

  /** Returns the places that a label may have, the best first: {align, moved}, px downwards. */
  function places(at, plot) {
    const sides = at.x > 0.6 * plot.inner_width ? ["right", "left"] : ["left", "right"];
    const found = [];
    for (let move = 0; move <= MOST_MOVES; move += 1) {
      for (const way of move === 0 ? [0] : [move, -move]) for (const align of sides) found.push({ align, moved: (way * HEIGHT) / 2 });
    }
    return found;
  }

  /** Returns the columns of labels for points {x, y} with their texts: align, right and down, px. */
  function placed(plot, points, texts) {
    const marks = points.map(({ x, y }) => pixel(plot, x, y));
    const dot = ({ x, y }) => ({ left: x - MARK / 2, right: x + MARK / 2, top: y - MARK / 2, bottom: y + MARK / 2 });
    clearSlope(plot, marks.map(dot));
    const taken = [...roofs(plot).map((label) => roofBox(plot, label)), ...marks.map(dot)];
    const inside = (one) => one.left >= 0 && one.right <= plot.inner_width && one.top >= 0 && one.bottom <= plot.inner_height;
    const found = points.map(() => null);
    for (const index of marks.map((_, at) => at).sort((one, other) => marks[one].y - marks[other].y)) {
      const options = places(marks[index], plot);
      const boxed = ({ align, moved }) => box(marks[index], texts[index], align, moved);
      const fits = (option) => inside(boxed(option)) && !taken.some((one) => meet(one, boxed(option)));
      const chosen = options.find(fits) ?? options.find((option) => inside(boxed(option))) ?? options[0];
      taken.push(boxed(chosen));
      found[index] = { align: chosen.align, right: chosen.align === "left" ? ROOM : -ROOM, down: chosen.moved };
    }
    return Object.fromEntries(["align", "right", "down"].map((name) => [name, found.map((one) => one[name])]));
  }

  return { placed };
})();
