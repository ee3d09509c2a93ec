// The picture: axes, data, band, draws, mean, μ(z) and points, as SVG.

import { linear, shownNumber, ticks } from "./scale.js";

const SVG = "http://www.w3.org/2000/svg";
const SLACK = 0.02; // of the domain, so that points at its ends are whole

export function element(name, attributes = {}, parent = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

export class Plot {
  constructor(svg) {
    this.svg = svg;
    const clip = element("clipPath", { id: "inside" }, element("defs", {}, svg));
    this.clip = element("rect", {}, clip);
    this.axes = element("g", { "aria-hidden": "true" }, svg);
    const inside = element("g", { "clip-path": "url(#inside)", "aria-hidden": "true" }, svg);
    for (const name of ["data", "band", "draws", "mean", "latent", "hair"]) this[`${name}Layer`] = element("g", {}, inside);
    this.pointsLayer = element("g", {}, svg);
    this.dots = new Map();
    this.view = null;
  }

  // `view`: domain and range of the axes.
  frame(view) {
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

  drawData(curves, output) {
    const lines = curves.filter((curve) => output < curve.y.length).map((curve) => this.#line(curve.x, curve.y[output]));
    replace(this.dataLayer, "data", lines);
  }

  drawFunctions(answer, shown) {
    replace(this.bandLayer, "band", answer ? [this.#area(answer)] : []);
    replace(this.drawsLayer, "draw", answer ? answer.draws.slice(0, shown).map((draw) => this.#line(answer.x, draw)) : []);
    replace(this.meanLayer, "mean", answer ? [this.#line(answer.x, answer.mean)] : []);
  }

  drawLatent(answer) {
    replace(this.latentLayer, "latent", answer ? [this.#line(answer.x, answer.curve)] : []);
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

  // Points keep their elements, and with them the focus.
  drawPoints(points, output, outputs) {
    const kept = new Set(points.map((point) => point.id));
    for (const [id, dot] of this.dots) {
      if (!kept.has(id)) {
        dot.remove();
        this.dots.delete(id);
      }
    }
    points.forEach((point, place) => {
      let dot = this.dots.get(point.id);
      if (!dot) {
        dot = element("g", { class: "point", tabindex: 0, role: "button", "aria-roledescription": "point" }, this.pointsLayer);
        element("circle", { class: "reach", r: 20 }, dot);
        element("circle", { class: "halo", r: 11 }, dot);
        element("circle", { class: "dot", r: 6.5 }, dot);
        dot.dataset.id = point.id;
        this.dots.set(point.id, dot);
      }
      dot.setAttribute("transform", `translate(${this.x(point.x).toFixed(2)} ${this.y(point.y).toFixed(2)})`);
      dot.classList.toggle("other", point.output !== output);
      const where = `x ${this.shownX(point.x)}, y ${this.shownY(point.y)}`;
      const which = outputs > 1 ? `, output ${point.output}` : "";
      dot.setAttribute("aria-label", `Point ${place + 1} of ${points.length}: ${where}${which}. Arrow keys move it, Delete removes it.`);
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
    const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
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

function replace(layer, name, paths) {
  while (layer.children.length > paths.length) layer.lastChild.remove();
  paths.forEach((path, i) => {
    const made = layer.children[i] ?? element("path", { class: name }, layer);
    made.setAttribute("d", path);
  });
}
