// The picture: axes, data, band, draws, mean, μ(z) and points, as SVG.

import { describe, Dots } from "./dots.js";
import { clamp, element, linear, rounded, shownNumber, STEP, ticks } from "./scale.js";

const SLACK = 0.02; // of the domain, so that points at its ends are whole
const ROOM = 0.08; // of the range, above and below what is in sight

export class Plot {
  constructor(svg) {
    this.svg = svg;
    const clip = element("clipPath", { id: "inside" }, element("defs", {}, svg));
    this.clip = element("rect", {}, clip);
    this.axes = element("g", { "aria-hidden": "true" }, svg);
    const inside = element("g", { "clip-path": "url(#inside)", "aria-hidden": "true" }, svg);
    for (const name of ["data", "band", "draws", "mean", "latent", "hair"]) this[`${name}Layer`] = element("g", {}, inside);
    this.dots = new Dots(element("g", {}, svg));
    this.view = null;
  }

  // The axes; `shown` as `show` has it.
  frame(shown) {
    const view = { domain: shown.card.domain[0], range: range(shown) };
    this.view = view;
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width || !height) return;
    this.size = { width, height };
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const labels = ticks(view.range, height / 64);
    const left = Math.max(34, 14 + 7.4 * Math.max(...labels.map((tick) => tick.label.length)));
    const box = { left, right: width - 14, top: 10, bottom: height - 30 };
    const slack = SLACK * (view.domain[1] - view.domain[0]);
    this.x = linear([view.domain[0] - slack, view.domain[1] + slack], [box.left, box.right]);
    this.y = linear(view.range, [box.bottom, box.top]);
    this.box = box;
    for (const [name, value] of Object.entries({ x: left, y: box.top, width: box.right - left, height: box.bottom - box.top })) {
      this.clip.setAttribute(name, Math.max(0, value));
    }
    this.#drawAxes(labels);
  }

  #drawAxes(labels) {
    const { left, right, top, bottom } = this.box;
    this.axes.replaceChildren();
    for (const { value, label } of labels) {
      const y = this.y(value);
      element("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }, this.axes);
      element("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, this.axes).textContent = label;
    }
    for (const { value, label } of ticks(this.x.domain, (right - left) / 96)) {
      const x = this.x(value);
      element("line", { class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 5 }, this.axes);
      element("text", { x, y: bottom + 20, "text-anchor": "middle" }, this.axes).textContent = label;
    }
    element("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }, this.axes);
    element("line", { class: "axis", x1: left, x2: left, y1: top, y2: bottom }, this.axes);
  }

  // `shown`: card, state, details, answer, latent and data.
  show(shown) {
    if (!this.view) this.frame(shown);
    if (!this.x) return;
    const { card, state } = shown;
    this.#drawData(shown.data, state.output);
    this.#drawFunctions(shown.answer, state.draws);
    replace(this.latentLayer, "latent", shown.latent ? [this.#line(shown.latent.x, shown.latent.curve)] : []);
    this.#drawPoints(state.points, state.output, card.outputs);
  }

  #drawData(curves, output) {
    const lines = curves.filter((curve) => output < curve.y.length).map((curve) => this.#line(curve.x, curve.y[output]));
    replace(this.dataLayer, "data", lines);
  }

  #drawFunctions(answer, shown) {
    replace(this.bandLayer, "band", answer ? [this.#area(answer)] : []);
    replace(this.drawsLayer, "draw", answer ? answer.draws.slice(0, shown).map((draw) => this.#line(answer.x, draw)) : []);
    replace(this.meanLayer, "mean", answer ? [this.#line(answer.x, answer.mean)] : []);
  }

  // The crosshair of the mouse, or the cursor of the keyboard.
  drawHair(at, kind) {
    this.hairLayer.replaceChildren();
    if (!at) return;
    const [x, y] = [this.x(at.x), this.y(at.y)];
    const { left, right, top, bottom } = this.box;
    element("line", { class: "hair", x1: x, x2: x, y1: top, y2: bottom }, this.hairLayer);
    if (kind !== "cursor") return;
    element("line", { class: "hair", x1: left, x2: right, y1: y, y2: y }, this.hairLayer);
    element("circle", { class: "cursor", cx: x, cy: y, r: 7 }, this.hairLayer);
  }

  #drawPoints(points, output, outputs) {
    this.dots.show(points, (dot, point, place) => {
      dot.setAttribute("transform", `translate(${this.x(point.x).toFixed(2)} ${this.y(point.y).toFixed(2)})`);
      dot.classList.toggle("other", point.output !== output);
      const where = `x ${this.shownX(point.x)}, y ${this.shownY(point.y)}`;
      const keys = "Arrow keys move it, Delete removes it.";
      describe(dot, { place, count: points.length, where, output: point.output, outputs, keys });
    });
  }

  shownX(value) {
    return shownNumber(value, this.x.domain[1] - this.x.domain[0]);
  }

  shownY(value) {
    return shownNumber(value, this.y.domain[1] - this.y.domain[0]);
  }

  // Where in the units of the data an event happened, inside the box.
  locate(event) {
    const { left, top } = this.svg.getBoundingClientRect();
    const { box } = this;
    const x = this.x.invert(clamp(event.clientX - left, box.left, box.right));
    return {
      x: clamp(x, ...this.view.domain),
      y: this.y.invert(clamp(event.clientY - top, box.top, box.bottom)),
    };
  }

  isInside(event) {
    const { left, top } = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return x >= this.box.left && x <= this.box.right && y >= this.box.top && y <= this.box.bottom;
  }

  round({ x, y }) {
    const { domain, range } = this.view;
    return { x: clamp(rounded(x, domain[1] - domain[0]), ...domain), y: rounded(y, range[1] - range[0]) };
  }

  middle() {
    const { domain, range } = this.view;
    return { x: (domain[0] + domain[1]) / 2, y: (range[0] + range[1]) / 2 };
  }

  stepped(at, across, up, beyond = 0) {
    const { domain, range } = this.view;
    const y = at.y + up * STEP * (range[1] - range[0]);
    return {
      x: clamp(at.x + across * STEP * (domain[1] - domain[0]), ...domain),
      y: beyond ? y : clamp(y, ...range),
    };
  }

  reading({ x }, answer, level) {
    const [first, last] = [answer.x[0], answer.x.at(-1)];
    const i = clamp(Math.round(((x - first) / (last - first || 1)) * (answer.x.length - 1)), 0, answer.x.length - 1);
    const [mean, lower, upper] = [answer.mean[i], answer.lower[i], answer.upper[i]].map((value) => (value === null ? "?" : this.shownY(value)));
    return `At ${this.shownX(answer.x[i])}: mean ${mean}, ${level} % from ${lower} to ${upper}`;
  }

  // How far a number of the table goes with a click on its arrows.
  steps() {
    return [this.view.domain, this.view.range].map(([low, high]) => rounded((high - low) * STEP, high - low) || "any");
  }

  #line(xs, ys) {
    let pen = "M";
    let path = "";
    for (let i = 0; i < xs.length; i += 1) {
      if (ys[i] === null) {
        pen = "M";
        continue;
      }
      path += `${pen}${this.x(xs[i]).toFixed(1)} ${this.#height(ys[i])}`;
      pen = "L";
    }
    return path;
  }

  #area({ x, lower, upper }) {
    const there = x.map((_, i) => i).filter((i) => lower[i] !== null && upper[i] !== null);
    if (!there.length) return "";
    const along = (places, ys) => places.map((i) => `${this.x(x[i]).toFixed(1)} ${this.#height(ys[i])}`).join("L");
    return `M${along(there, upper)}L${along([...there].reverse(), lower)}Z`;
  }

  // Far outside the frame pixels grow beyond what browsers draw.
  #height(value) {
    return Math.min(Math.max(this.y(value), -1e4), 1e4).toFixed(1);
  }
}

// Nearly all draws of the prior, the points, and the band where it is not far out of sight.
function range({ answer, details, state: { output, points } }) {
  const [low, high] = details.range[output];
  const room = ROOM * (high - low) || 1;
  const values = points.filter((point) => point.output === output).map((point) => point.y);
  if (answer) {
    const ends = [...answer.lower, ...answer.upper].filter((value) => value !== null);
    values.push(...ends.map((value) => clamp(value, low - (high - low), high + (high - low))));
  }
  return [Math.min(low, ...values) - room, Math.max(high, ...values) + room];
}

function replace(layer, name, paths) {
  while (layer.children.length > paths.length) layer.lastChild.remove();
  paths.forEach((path, i) => {
    const made = layer.children[i] ?? element("path", { class: name }, layer);
    made.setAttribute("d", path);
  });
}
