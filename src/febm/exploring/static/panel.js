// The controls beside the picture: each shows a part of the state, and says when a hand changes it.

import { rounded } from "./scale.js";
import { noiseFactor } from "./state.js";

const find = (id) => document.getElementById(id);

export class Panel {
  // `change(part, { goesOn })` takes a part of a new state; `site` says what there is.
  constructor(site, change) {
    this.site = site;
    this.change = change;
    for (const card of site.models) find("model").add(new Option(`${card.name} · ${card.kind}`, card.name));
    find("draws").max = site.draws;
    find("model").addEventListener("change", (event) => change({ model: event.target.value }));
    find("output").addEventListener("change", (event) => change({ output: Number(event.target.value) }));
    this.#slide("level", (value) => ({ level: value }));
    this.#slide("draws", (value) => ({ draws: value }));
    this.#slide("resolution", (value) => ({ resolution: this.card.resolutions[value] }));
    this.#slide("which", (value) => ({ which: value }));
    this.#slide("exactness", (value) => ({ exactness: value }));
    find("noise").addEventListener("change", (event) => change({ noise: event.target.checked }));
    find("down").addEventListener("change", (event) => change({ down: event.target.checked }));
    find("effort").addEventListener("change", (event) => change({ fullEffort: event.target.checked }));
    find("latent-reset").addEventListener("click", () => change({ moved: {} }));
    this.sliders = new Map();
  }

  #slide(id, part) {
    const input = find(id);
    input.addEventListener("input", () => this.change(part(Number(input.value)), { goesOn: true }));
    input.addEventListener("change", () => this.change(part(Number(input.value))));
  }

  // What depends on the model alone.
  showModel(card, data) {
    this.card = card;
    this.data = data;
    find("resolution").max = card.resolutions.length - 1;
    find("which").max = Math.max(0, data.length - 1);
    find("which-field").hidden = data.length < 2;
    const output = find("output");
    output.replaceChildren(...Array.from({ length: card.outputs }, (_, i) => new Option(String(i), i)));
    find("output-field").hidden = card.outputs === 1;
    find("exactness-field").hidden = !card.noise_scale;
    find("exactness-fixed").hidden = card.noise_scale;
    find("effort-field").hidden = !card.effort;
    if (card.effort) {
      find("effort-text").textContent = `Full effort: ${card.effort.full} draws per posterior, not ${card.effort.draws}`;
    }
    this.showDirections(null);
  }

  // Sliders for latent coordinates; null while they are not known.
  showDirections(details) {
    const text = find("latent-text");
    this.sliders.clear();
    find("latents").replaceChildren();
    if (!details) {
      text.textContent = "Finding the directions…";
      return;
    }
    text.textContent = details.without_latents
      ?? "Functions are μ(z). Drag a coordinate of z, in standard deviations of the prior, and see the function move.";
    for (const { coordinate, share } of details.directions) this.#addDirection(coordinate, share);
  }

  #addDirection(coordinate, share) {
    const id = `latent-${coordinate}`;
    const row = document.createElement("div");
    row.className = "slider";
    const label = Object.assign(document.createElement("label"), { htmlFor: id, textContent: `z${coordinate}` });
    label.title = `${Math.round(100 * share)} % of how far all coordinates move functions`;
    const output = document.createElement("output");
    output.htmlFor = id;
    const range = { id, type: "range", min: -this.site.farthest, max: this.site.farthest, step: 0.1, value: 0 };
    const input = Object.assign(document.createElement("input"), range);
    const moved = () => ({ moved: { ...this.state.moved, [coordinate]: Number(input.value) } });
    input.addEventListener("input", () => this.change(moved(), { goesOn: true }));
    input.addEventListener("change", () => this.change(moved()));
    row.append(label, output, input);
    find("latents").append(row);
    this.sliders.set(coordinate, { input, output });
  }

  show(state) {
    this.state = state;
    find("model").value = state.model;
    find("output").value = state.output;
    this.#set("level", state.level, `${state.level} %`);
    this.#set("draws", state.draws, state.draws === 0 ? "none" : state.draws);
    const { resolution } = state;
    const cells = this.card.inputs === 1 ? `${resolution} points` : `${resolution} × ${resolution} cells`;
    this.#set("resolution", this.card.resolutions.indexOf(resolution), cells);
    this.#set("which", state.which, this.data[state.which]?.name ?? "none");
    this.#set("exactness", state.exactness, state.exactness === 0 ? "as learned" : `× ${noiseFactor(state)}`);
    find("noise").checked = state.noise;
    find("down").checked = state.down;
    find("effort").checked = state.fullEffort;
    find("latent-reset").hidden = !Object.keys(state.moved).length;
    for (const [coordinate, { input, output }] of this.sliders) {
      const value = state.moved[coordinate] ?? 0;
      input.value = value;
      output.textContent = `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)} sd`;
      input.setAttribute("aria-valuetext", `${value} standard deviations`);
    }
    find("key-band").textContent = `${state.level} % band${state.noise ? " of new values" : ""}`;
    find("key-draw").textContent = state.draws === 1 ? "1 draw" : `${state.draws || "no"} draws`;
  }

  #set(id, value, text) {
    const input = find(id);
    input.value = value;
    input.setAttribute("aria-valuetext", String(text));
    find(`${id}-value`).textContent = text;
  }
}

// The value of the chosen point or, where none is, of the next: where it is no coordinate of the picture.
export class ValueControl {
  // `change(value, { goesOn })`, and `release()` to choose no point.
  constructor({ change, release }) {
    for (const [name, input] of [["value", find("value")], ["value-typed", find("value-typed")]]) {
      const read = () => (name === "value" ? rounded(input.valueAsNumber, this.span) : input.valueAsNumber);
      input.addEventListener("change", () => Number.isFinite(read()) && change(read()));
      if (name === "value") input.addEventListener("input", () => change(read(), { goesOn: true }));
    }
    find("value-release").addEventListener("click", release);
  }

  // `place`: which point is chosen, counted from 0; null where none is.
  show(value, [low, high], place) {
    find("value-label").textContent = place === null ? "Value of the next point" : `Value of point ${place + 1}`;
    find("value-release").hidden = place === null;
    this.span = high - low;
    for (const name of ["value", "value-typed"]) {
      const input = find(name);
      input.step = name === "value" ? (high - low) / 1000 : "any";
      if (name === "value") Object.assign(input, { min: low, max: high });
      if (document.activeElement !== input || Number(input.value) !== value) input.value = value;
    }
    find("value").setAttribute("aria-valuetext", String(value));
  }
}

// The points as numbers, to read and to type.
export class PointTable {
  constructor({ edit, remove }) {
    this.head = document.querySelector("#points thead tr");
    this.body = document.querySelector("#points tbody");
    this.names = [];
    this.rows = new Map();
    this.edit = edit;
    this.remove = remove;
  }

  // `steps`: how far the arrows of each column go.
  show(points, card, steps) {
    this.#setColumns(card.inputs === 1 ? ["x", "y"] : ["x0", "x1", "y"]);
    find("points").hidden = !points.length;
    find("points-empty").hidden = points.length > 0;
    document.querySelector(".output-column").hidden = card.outputs === 1;
    const kept = new Set(points.map((point) => point.id));
    for (const [id, row] of this.rows) {
      if (!kept.has(id)) {
        row.element.remove();
        this.rows.delete(id);
      }
    }
    points.forEach((point, place) => {
      const row = this.rows.get(point.id) ?? this.#add(point.id);
      const numbers = [point.x, point.y].flat();
      row.inputs.forEach((input, i) => {
        input.step = steps[i];
        input.setAttribute("aria-label", `${this.names[i]} of point ${place + 1}`);
        if (document.activeElement !== input) input.value = numbers[i];
      });
      row.remove.setAttribute("aria-label", `Remove point ${place + 1}`);
      row.output.hidden = card.outputs === 1;
      row.output.textContent = point.output;
    });
  }

  #setColumns(names) {
    if (names.join() === this.names.join()) return;
    this.names = names;
    this.rows.clear();
    this.body.replaceChildren();
    this.head.querySelectorAll(".number-column").forEach((each) => each.remove());
    const made = names.map((name) => Object.assign(document.createElement("th"), { scope: "col", className: "number-column", textContent: name }));
    this.head.prepend(...made);
  }

  #add(id) {
    const element = this.body.insertRow();
    const row = { element, inputs: [] };
    for (const name of this.names) {
      const input = Object.assign(document.createElement("input"), { type: "number", required: true });
      input.addEventListener("change", () => {
        if (Number.isFinite(input.valueAsNumber)) this.edit(id, name, input.valueAsNumber);
      });
      element.insertCell().append(input);
      row.inputs.push(input);
    }
    row.output = element.insertCell();
    row.remove = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: "×" });
    row.remove.addEventListener("click", () => this.remove(id));
    element.insertCell().append(row.remove);
    this.rows.set(id, row);
    return row;
  }
}
