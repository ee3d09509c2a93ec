// The controls beside the picture: each shows a part of the state, and says when a hand changes it.

import { noiseFactor } from "./state.js";

const find = (id) => document.getElementById(id);

export class Panel {
  // `change(part, { goesOn })` takes a part of a new state; `site` says what there is.
  constructor(site, change) {
    this.site = site;
    this.change = change;
    for (const card of site.models) find("model").add(new Option(`${card.name} · ${card.kind}`, card.name));
    find("draws").max = site.draws;
    find("resolution").max = site.resolutions.length - 1;
    find("model").addEventListener("change", (event) => change({ model: event.target.value }));
    find("output").addEventListener("change", (event) => change({ output: Number(event.target.value) }));
    this.#slide("level", (value) => ({ level: value }));
    this.#slide("draws", (value) => ({ draws: value }));
    this.#slide("resolution", (value) => ({ resolution: site.resolutions[value] }));
    this.#slide("exactness", (value) => ({ exactness: value }));
    find("noise").addEventListener("change", (event) => change({ noise: event.target.checked }));
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
  showModel(card) {
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
      ?? "Functions are μ(z). Drag a coordinate of z, in standard deviations of the prior, and see the curve move.";
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
    this.#set("resolution", this.site.resolutions.indexOf(state.resolution), `${state.resolution} points`);
    this.#set("exactness", state.exactness, state.exactness === 0 ? "as learned" : `× ${noiseFactor(state)}`);
    find("noise").checked = state.noise;
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

// The points as numbers, to read and to type.
export class PointTable {
  constructor({ edit, remove }) {
    this.body = document.querySelector("#points tbody");
    this.rows = new Map();
    this.edit = edit;
    this.remove = remove;
  }

  show(points, outputs, span) {
    find("points").hidden = !points.length;
    find("points-empty").hidden = points.length > 0;
    document.querySelector(".output-column").hidden = outputs === 1;
    const kept = new Set(points.map((point) => point.id));
    for (const [id, row] of this.rows) {
      if (!kept.has(id)) {
        row.element.remove();
        this.rows.delete(id);
      }
    }
    points.forEach((point, place) => {
      const row = this.rows.get(point.id) ?? this.#add(point);
      for (const name of ["x", "y"]) {
        const input = row[name];
        input.step = span[name];
        input.setAttribute("aria-label", `${name} of point ${place + 1}`);
        if (document.activeElement !== input) input.value = point[name];
      }
      row.remove.setAttribute("aria-label", `Remove point ${place + 1}`);
      row.output.hidden = outputs === 1;
      row.output.textContent = point.output;
    });
  }

  #add(point) {
    const element = this.body.insertRow();
    const row = { element };
    for (const name of ["x", "y"]) {
      const input = Object.assign(document.createElement("input"), { type: "number", required: true });
      input.addEventListener("change", () => {
        if (input.value !== "" && Number.isFinite(input.valueAsNumber)) this.edit(point.id, { [name]: input.valueAsNumber });
      });
      element.insertCell().append(input);
      row[name] = input;
    }
    row.output = element.insertCell();
    row.remove = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: "×" });
    row.remove.addEventListener("click", () => this.remove(point.id));
    element.insertCell().append(row.remove);
    this.rows.set(point.id, row);
    return row;
  }
}
