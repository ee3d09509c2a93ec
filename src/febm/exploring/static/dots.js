// Points that were placed: elements that keep their place in the document, and with it the focus.

import { element } from "./scale.js";

export class Dots {
  constructor(layer) {
    this.layer = layer;
    this.elements = new Map();
  }

  get(id) {
    return this.elements.get(id);
  }

  // `dress(dot, point, place)` puts each where it belongs.
  show(points, dress) {
    const kept = new Set(points.map((point) => point.id));
    for (const [id, dot] of this.elements) {
      if (!kept.has(id)) {
        dot.remove();
        this.elements.delete(id);
      }
    }
    points.forEach((point, place) => {
      if (!this.elements.has(point.id)) this.elements.set(point.id, this.#add(point.id));
      dress(this.elements.get(point.id), point, place);
    });
  }

  #add(id) {
    const dot = element("g", { class: "point", tabindex: 0, role: "button", "aria-roledescription": "point" }, this.layer);
    element("circle", { class: "reach", r: 20 }, dot);
    element("circle", { class: "halo", r: 11 }, dot);
    element("circle", { class: "dot", r: 6.5 }, dot);
    dot.dataset.id = id;
    return dot;
  }
}

// What a screen reader says of a point.
export function describe(dot, { place, count, where, output, outputs, keys }) {
  const which = outputs > 1 ? `, output ${output}` : "";
  dot.setAttribute("aria-label", `Point ${place + 1} of ${count}: ${where}${which}. ${keys}`);
}
