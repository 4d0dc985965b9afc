// Places the labels of a roofline plot's points: beside the point, moved up or down where a roof's label, another point or
// another label is.
"use strict";

const RooflineLabels = (() => {
  const HEIGHT = 15; // px of a line of text
  const ROOM = 10; // px between a point and its label
  const MARK = 12; // px of a point
  const MOST_MOVES = 10; // of HEIGHT / 2 each, after which a label covers something
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "12px Helvetica, Arial, sans-serif"; // as site/charts/roofline.py sets it

  const widthOf = (text) => Math.max(...text.split("\n").map((line) => pen.measureText(line).width));
  const box = (left, top, width, height) => ({ left, top, right: left + width, bottom: top + height });
  const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

  /** Returns the pixel of a point, from the upper left corner of the plot's frame. */
  function pixel(plot, x, y) {
    const along = (value, { start, end }) => Math.log(value / start) / Math.log(end / start);
    return { x: plot.inner_width * along(x, plot.x_range), y: plot.inner_height * (1 - along(y, plot.y_range)) };
  }

  const roofLabels = (plot) => plot.center.filter((part) => typeof part.text === "string");

  /** Returns the box of a roof's label (site/charts/roofline.py), there or at another point. */
  function roofBox(plot, label, { x, y } = label) {
    const at = pixel(plot, x, y);
    const [width, height] = [widthOf(label.text), HEIGHT * label.text.split("\n").length];
    const left = at.x + label.x_offset - (label.text_align === "right" ? width : 0);
    return box(left, at.y - label.y_offset - (label.text_baseline === "top" ? 0 : height), width, height);
  }

  /** Moves the label of DRAM's slope, which begins at the left, up the slope to where no point and no level line is. */
  function clearSlope(plot, dots) {
    const labels = roofLabels(plot);
    const slope = labels.find((label) => label.text_align === "left" && label.text_baseline !== "top");
    if (slope === undefined) return;
    const levels = labels.filter((label) => label.text_align === "right").map(({ x, y }) => box(0, pixel(plot, x, y).y - 1, plot.inner_width, 2));
    const taken = [...dots, ...levels, ...labels.filter((label) => label !== slope).map((label) => roofBox(plot, label))];
    const { start, end } = plot.x_range;
    const points = Array.from({ length: MOST_MOVES }, (_, move) => start * (end / start) ** (move / (2 * MOST_MOVES)))
      .map((x) => ({ x, y: (slope.y / slope.x) * x }));
    const fits = (point) => point.y < plot.y_range.end && !taken.some((other) => overlap(other, roofBox(plot, slope, point)));
    slope.setv(points.find(fits) ?? points[0]);
  }

  /** Returns the possible places of a label, the best first: its side of alignment, px downwards, and its box. */
  function options(plot, at, text) {
    const width = widthOf(text);
    const sides = at.x > 0.6 * plot.inner_width ? ["right", "left"] : ["left", "right"];
    const moves = Array.from({ length: MOST_MOVES }, (_, move) => [move + 1, -move - 1]).flat();
    return [0, ...moves].flatMap((move) => sides.map((align) => {
      const down = (move * HEIGHT) / 2;
      const left = align === "left" ? at.x + ROOM : at.x - ROOM - width;
      return { align, down, right: align === "left" ? ROOM : -ROOM, box: box(left, at.y + down - HEIGHT / 2, width, HEIGHT) };
    }));
  }

  /** Returns the columns of the labels of points {x, y}: align, right and down, px. */
  function placed(plot, points, texts) {
    const pixels = points.map(({ x, y }) => pixel(plot, x, y));
    const dots = pixels.map(({ x, y }) => box(x - MARK / 2, y - MARK / 2, MARK, MARK));
    clearSlope(plot, dots);
    const taken = [...roofLabels(plot).map((label) => roofBox(plot, label)), ...dots];
    const isInside = ({ box: { left, right, top, bottom } }) => left >= 0 && right <= plot.inner_width && top >= 0 && bottom <= plot.inner_height;
    const isFree = (option) => !taken.some((other) => overlap(other, option.box));
    const chosen = [];
    for (const index of Array.from(pixels.keys()).sort((a, b) => pixels[a].y - pixels[b].y)) {
      const all = options(plot, pixels[index], texts[index]);
      const inside = all.filter(isInside);
      chosen[index] = inside.find(isFree) ?? inside[0] ?? all[0];
      taken.push(chosen[index].box);
    }
    return Object.fromEntries(["align", "right", "down"].map((name) => [name, chosen.map((label) => label[name])]));
  }

  return { placed };
})();
