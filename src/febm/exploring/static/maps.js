// The picture of functions of two inputs: maps of the mean, of the width of the band, and of one draw, side by side.

import { describe, Dots } from "./dots.js";
import { bar, colour, painted, UNCERTAINTY, VALUES, written } from "./heat.js";
import { clamp, element, linear, rounded, shownNumber, STEP, ticks } from "./scale.js";

const TITLE = 22; // pixels above a map
const SMALL = 640; // of a picture that is narrower than this, the other maps are below
const PADDING = 14; // between maps

export class Maps {
  constructor(svg) {
    this.svg = svg;
    this.ground = element("g", { "aria-hidden": "true" }, svg);
    this.heatLayer = element("g", { "aria-hidden": "true" }, svg);
    this.back = element("g", { "aria-hidden": "true" }, svg);
    this.hairLayer = element("g", { "aria-hidden": "true" }, svg);
    this.marksLayer = element("g", { "aria-hidden": "true" }, svg);
    this.dots = new Dots(element("g", {}, svg));
    this.panels = [];
    this.heats = new Map();
    this.bars = { [VALUES]: bar(VALUES), [UNCERTAINTY]: bar(UNCERTAINTY) };
    this.held = null;
  }

  // Where everything is; `shown` as `show` has it.
  frame(shown) {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width || !height) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const { domain } = shown.card;
    // In a map the first input runs to the right and the second up, in an image the first down and the second right.
    this.axes = shown.state.down ? { across: 1, along: 0 } : { across: 0, along: 1 };
    this.domain = domain;
    const [across, along] = [domain[this.axes.across], domain[this.axes.along]];
    // Pixels are square; inputs in units of their own take what room there is.
    const aspect = shown.card.image ? (across[1] - across[0]) / (along[1] - along[0]) : null;
    this.panels = cells(names(shown), width, height).map(({ name, cell }) => {
      const box = fitted(cell, aspect);
      const upright = shown.state.down ? [box.top, box.bottom] : [box.bottom, box.top];
      return { name, cell, box, x: linear(across, [box.left, box.right]), y: linear(along, upright) };
    });
    this.box = this.panels[0].box;
    this.ends = valueEnds(shown);
  }

  // `shown`: card, state, details, answer, latent, data and the chosen point.
  show(shown) {
    const { card, details, state } = shown;
    if (this.panels.map((panel) => panel.name).join() !== names(shown).join()) this.frame(shown);
    if (!this.box) return;
    this.widths = [0, details.range[state.output][1] - details.range[state.output][0]];
    this.ground.replaceChildren();
    this.back.replaceChildren();
    this.used = new Set();
    for (const panel of this.panels) this.#draw(panel, shown);
    for (const [name, image] of this.heats) {
      if (!this.used.has(name)) {
        image.remove();
        this.heats.delete(name);
      }
    }
    this.#drawPoints(state.points, state.output, card.outputs, shown.chosen);
  }

  #draw(panel, shown) {
    const { name, box, cell } = panel;
    const isWidth = name === "width";
    const [ends, ramp] = isWidth ? [this.widths, UNCERTAINTY] : [this.ends, VALUES];
    const place = { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top };
    element("text", { class: "title", x: box.left, y: cell.top + 15 }, this.back).textContent = title(name, shown);
    element("rect", { class: "empty", ...place }, this.ground);
    const values = this.#values(name, shown);
    if (values) this.#heat(name, painted(this.#rows(values), ends, ramp), place);
    if (name === "data") this.#drawData(panel, shown);
    element("rect", { class: "edge", ...place }, this.back);
    if (name === "mean") this.#drawAxes(panel);
    if (name === "mean" || isWidth) this.#drawBar(panel, ends, ramp);
  }

  // An image keeps its element: a new one would be blank until it is decoded.
  #heat(name, href, place) {
    if (!this.heats.has(name)) {
      const image = element("image", { class: "heat", preserveAspectRatio: "none" }, this.heatLayer);
      image.dataset.map = name;
      this.heats.set(name, image);
    }
    this.used.add(name);
    for (const [key, value] of Object.entries({ ...place, href })) {
      if (this.heats.get(name).getAttribute(key) !== String(value)) this.heats.get(name).setAttribute(key, value);
    }
  }

  #values(name, { answer, latent }) {
    if (name === "mean") return answer?.mean;
    if (name === "draw") return answer?.draws[0];
    if (name === "latent") return latent?.curve;
    if (name !== "width" || !answer) return null;
    const width = (upper, lower) => (upper === null || lower === null ? null : upper - lower);
    return answer.upper.map((upper, i) => width(upper, answer.lower[i]));
  }

  // Values of a grid, of which the second input runs fastest, as rows from the top of a map.
  #rows(values, [first, second] = [Math.sqrt(values.length), Math.sqrt(values.length)].map(Math.round)) {
    const [outer, inner] = [first, second].map((length) => Array.from({ length }, (_, i) => i));
    return this.axes.across === 1
      ? outer.map((row) => values.slice(row * second, (row + 1) * second))
      : inner.map((row) => outer.map((column) => values[column * second + second - 1 - row]));
  }

  // A function of the data at its own points: cells where they fill a grid, else squares.
  #drawData({ box, x, y }, { data, state }) {
    const curve = data[Math.min(state.which, data.length - 1)];
    const values = curve.y[state.output];
    if (!values) return;
    const [first, second] = [0, 1].map((input) => new Set(curve.x.map((place) => place[input])).size);
    if (first * second === values.length && first > 1 && second > 1) {
      const [left, right] = [x(curve.x[0][this.axes.across]), x(curve.x.at(-1)[this.axes.across])].sort((a, b) => a - b);
      const [top, bottom] = [y(curve.x[0][this.axes.along]), y(curve.x.at(-1)[this.axes.along])].sort((a, b) => a - b);
      const rows = this.#rows(values, [first, second]);
      const [wide, tall] = [(right - left) / (rows[0].length - 1), (bottom - top) / (rows.length - 1)];
      const place = { x: left - wide / 2, y: top - tall / 2, width: right - left + wide, height: bottom - top + tall };
      this.#heat("data", painted(rows, this.ends, VALUES), place);
      return;
    }
    const size = clamp(0.5 * Math.sqrt(((box.right - box.left) * (box.bottom - box.top)) / values.length), 3, 9);
    values.forEach((value, i) => {
      if (value === null) return;
      const [across, along] = this.#pixels({ x, y }, curve.x[i]);
      const corner = { x: across - size / 2, y: along - size / 2, width: size, height: size };
      element("rect", { class: "cell", fill: written(colour(value, this.ends, VALUES)), ...corner }, this.back);
    });
  }

  #drawAxes({ box, x, y }) {
    for (const { value, label } of ticks(x.domain, (box.right - box.left) / 80)) {
      const at = x(value);
      element("line", { class: "axis", x1: at, x2: at, y1: box.bottom, y2: box.bottom + 5 }, this.back);
      element("text", { x: at, y: box.bottom + 19, "text-anchor": "middle" }, this.back).textContent = label;
    }
    for (const { value, label } of ticks(y.domain, (box.bottom - box.top) / 64)) {
      const at = y(value);
      element("line", { class: "axis", x1: box.left - 5, x2: box.left, y1: at, y2: at }, this.back);
      element("text", { x: box.left - 8, y: at + 4, "text-anchor": "end" }, this.back).textContent = label;
    }
  }

  #drawBar({ box }, ends, ramp) {
    const place = { x: box.right + 10, y: box.top, width: 10, height: box.bottom - box.top };
    this.#heat(`bar ${ramp}`, this.bars[ramp], place);
    const scale = linear(ends, [box.bottom, box.top]);
    for (const { value, label } of ticks(ends, (box.bottom - box.top) / 56)) {
      element("text", { x: box.right + 25, y: scale(value) + 4 }, this.back).textContent = label;
    }
  }

  // The crosshair of the mouse, or the cursor of the keyboard, on every map.
  drawHair(at, kind) {
    this.hairLayer.replaceChildren();
    if (!at) return;
    for (const panel of this.panels) {
      const [x, y] = this.#pixels(panel, at.x);
      const { left, right, top, bottom } = panel.box;
      element("line", { class: "hair", x1: x, x2: x, y1: top, y2: bottom }, this.hairLayer);
      element("line", { class: "hair", x1: left, x2: right, y1: y, y2: y }, this.hairLayer);
      if (kind === "cursor") element("circle", { class: "cursor", cx: x, cy: y, r: 7 }, this.hairLayer);
    }
  }

  // Points have the colour of their value; on the mean they can be taken by keys, on every map by hand.
  #drawPoints(points, output, outputs, chosen) {
    this.marksLayer.replaceChildren();
    this.dots.show(points, (dot, point, place) => {
      const isOther = point.output !== output;
      const fill = isOther ? "none" : written(colour(point.y, this.ends, VALUES));
      this.panels.forEach((panel, i) => {
        const [x, y] = this.#pixels(panel, point.x);
        const transform = `translate(${x.toFixed(2)} ${y.toFixed(2)})`;
        if (i > 0) {
          const mark = element("g", { class: "point mark", transform }, this.marksLayer);
          mark.dataset.id = point.id;
          element("circle", { class: "reach", r: 14 }, mark);
          element("circle", { class: "ring", r: 5.8 }, mark);
          element("circle", { class: "dot", r: 4.2, fill }, mark);
          return;
        }
        dot.setAttribute("transform", transform);
        dot.classList.toggle("other", isOther);
        dot.classList.toggle("chosen", point.id === chosen);
        if (!dot.querySelector(".ring")) dot.insertBefore(element("circle", { class: "ring", r: 8.2 }), dot.lastChild);
        dot.lastChild.setAttribute("fill", fill);
      });
      const where = `at ${this.shownPlace(point.x)}, value ${this.shownValue(point.y)}`;
      const keys = "Arrow keys move it, Page Up and Page Down change its value, Delete removes it.";
      describe(dot, { place, count: points.length, where, output: point.output, outputs, keys });
    });
  }

  #pixels({ x, y }, place) {
    return [x(place[this.axes.across]), y(place[this.axes.along])];
  }

  shownPlace(place) {
    return `(${place.map((value, i) => shownNumber(value, this.domain[i][1] - this.domain[i][0])).join(", ")})`;
  }

  shownValue(value) {
    return shownNumber(value, this.ends[1] - this.ends[0]);
  }

  // --- hands

  // A drag stays on the map that it began on.
  hold(event) {
    this.held = event ? this.#nearest(event) : null;
  }

  locate(event) {
    const { box, x, y } = this.held ?? this.#nearest(event);
    const { left, top } = this.svg.getBoundingClientRect();
    const place = [0, 0];
    place[this.axes.across] = x.invert(clamp(event.clientX - left, box.left, box.right));
    place[this.axes.along] = y.invert(clamp(event.clientY - top, box.top, box.bottom));
    return { x: place };
  }

  isInside(event) {
    return this.#distance(this.#nearest(event), event) === 0;
  }

  #nearest(event) {
    return this.panels.reduce((best, panel) => (this.#distance(panel, event) < this.#distance(best, event) ? panel : best));
  }

  #distance({ box }, event) {
    const { left, top } = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return Math.hypot(x - clamp(x, box.left, box.right), y - clamp(y, box.top, box.bottom));
  }

  round({ x }) {
    return { x: x.map((value, i) => clamp(rounded(value, this.domain[i][1] - this.domain[i][0]), ...this.domain[i])) };
  }

  middle() {
    return { x: this.domain.map(([low, high]) => (low + high) / 2) };
  }

  // Keys go where they point: up is up, also where an input runs down.
  stepped({ x }, across, up) {
    const steps = [0, 0];
    steps[this.axes.across] = across;
    steps[this.axes.along] = this.axes.across === 1 ? -up : up;
    return { x: x.map((value, i) => clamp(value + steps[i] * STEP * (this.domain[i][1] - this.domain[i][0]), ...this.domain[i])) };
  }

  // --- words

  reading({ x }, answer, level) {
    const side = Math.round(Math.sqrt(answer.mean.length));
    const [row, column] = x.map((value, i) => {
      const [low, high] = this.domain[i];
      return clamp(Math.floor(((value - low) / (high - low || 1)) * side), 0, side - 1);
    });
    const i = row * side + column;
    const [mean, lower, upper] = [answer.mean[i], answer.lower[i], answer.upper[i]].map((value) => (value === null ? "?" : this.shownValue(value)));
    return `At ${this.shownPlace(answer.x[i])}: mean ${mean}, ${level} % from ${lower} to ${upper}`;
  }

  // How far a number of the table goes with a click on its arrows.
  steps() {
    return [...this.domain, this.ends].map(([low, high]) => rounded((high - low) * STEP, high - low) || "any");
  }
}

function names({ data, state }) {
  return ["mean", "width", "draw", ...(data.length ? ["data"] : []), ...(Object.keys(state.moved).length ? ["latent"] : [])];
}

function title(name, { data, state }) {
  const curve = data[Math.min(state.which, data.length - 1)];
  return {
    mean: "mean",
    width: `${state.level} % band width`,
    draw: state.noise ? "one noisy draw" : "one draw",
    data: curve && `data: ${curve.name}`,
    latent: "μ(z)",
  }[name];
}

// Nearly all draws of the prior, the points, and the mean where it is not far out of sight.
function valueEnds({ answer, details, state: { output, points } }) {
  const [low, high] = details.range[output];
  const span = high - low || 1;
  const means = (answer?.mean ?? []).filter((value) => value !== null).map((value) => clamp(value, low - span, high + span));
  const values = [...means, ...points.filter((point) => point.output === output).map((point) => point.y)];
  const [least, most] = [Math.min(low, ...values), Math.max(high, ...values)];
  return most > least ? [least, most] : [least - 1, most + 1];
}

// The mean is large. The others are beside it or, where there is little room, below, two in a row.
function cells([main, ...others], width, height) {
  const isSmall = width < SMALL;
  const rows = isSmall ? Math.ceil(others.length / 2) : others.length;
  const [top, left] = isSmall ? [height * (rows > 1 ? 0.5 : 0.6), 8] : [0, width * (rows > 2 ? 0.74 : 0.7) + PADDING];
  const area = isSmall
    ? { left: 42, right: width - 50, top: 0, bottom: top - 36 }
    : { left: 46, right: left - PADDING - 56, top: 0, bottom: height - 30 };
  const tall = (height - top) / rows;
  const place = (i) => {
    const [row, column] = isSmall ? [Math.floor(i / 2), i % 2] : [i, 0];
    const wide = (width - left) / (isSmall ? 2 : 1);
    return { left: left + column * wide, right: left + (column + 1) * wide - 50, top: top + row * tall, bottom: top + (row + 1) * tall - PADDING };
  };
  return [{ name: main, cell: area }, ...others.map((name, i) => ({ name, cell: place(i) }))];
}

// The largest box of an aspect in a cell, under its title.
function fitted({ left, right, top, bottom }, aspect) {
  const [width, height] = [Math.max(right - left, 20), Math.max(bottom - top - TITLE, 20)];
  const used = aspect === null ? width : Math.min(width, height * aspect);
  const tall = aspect === null ? height : used / aspect;
  return { left, right: left + used, top: top + TITLE, bottom: top + TITLE + tall };
}
