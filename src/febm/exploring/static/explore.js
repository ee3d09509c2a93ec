// The page: holds the state, asks the server, and shows what it says.

import { exporting } from "./exports.js";
import { Maps } from "./maps.js";
import { Panel, PointTable, ValueControl } from "./panel.js";
import { Plot } from "./plot.js";
import { listen } from "./pointing.js";
import { ask, Latest } from "./questions.js";
import { clamp, rounded, STEP } from "./scale.js";
import { decode, encode, History, isPlaced, question } from "./state.js";
import { say, wait } from "./status.js";

const find = (id) => document.getElementById(id);

class Page {
  constructor(site, data) {
    this.site = site;
    this.allData = data;
    this.history = new History();
    this.nextId = 0;
    this.answer = null;
    this.latent = null;
    this.details = new Map();
    this.chosen = null; // a point, where values are no coordinate of the picture
    this.value = null; // of the next point there; null: in the middle
    this.pictures = { 1: new Plot(find("plot")), 2: new Maps(find("maps")) };
    this.panel = new Panel(site, (part, how) => this.change(part, how));
    this.table = new PointTable({
      edit: (id, name, number) => this.edit(id, name, number),
      remove: (id) => this.remove(id),
    });
    this.valueControl = new ValueControl({
      change: (value, how) => this.setValue(this.chosen, value, how),
      release: () => this.choosePoint(null),
    });
    const failed = (error) => say(error.message, true);
    this.functions = new Latest((asked) => (asked.points.length ? "/api/posterior" : "/api/prior"), {
      answered: (answer, asked, took) => this.answered(answer, asked, took),
      failed,
      busy: wait,
    });
    this.latents = new Latest("/api/latent", {
      answered: (answer) => {
        this.latent = answer;
        this.draw();
      },
      failed,
      busy: () => {},
    });
    this.setState(decode(location.hash, site));
    this.#wire();
    this.choose();
  }

  #wire() {
    for (const plot of Object.values(this.pictures)) {
      listen(plot, {
        add: (at) => this.add(at),
        move: (id, at) => this.place(id, at),
        grab: () => this.history.remember(this.state.points),
        nudge: (id, across, up) => this.nudge(id, across, up),
        raise: (id, steps) => this.raise(id, steps),
        choose: (id) => this.choosePoint(id),
        remove: (id) => this.remove(id),
        settle: () => this.settle(),
        look: (at, kind) => this.look(at, kind),
        middle: () => plot.middle(),
        stepped: (at, across, up) => plot.stepped(at, across, up),
      });
    }
    const clicks = {
      undo: () => this.travel("back"),
      redo: () => this.travel("forth"),
      clear: () => this.clear(),
      shuffle: () => this.change({ seed: this.state.seed + 1 }),
      ...exporting(this),
    };
    for (const [id, action] of Object.entries(clicks)) find(id).addEventListener("click", action);
    document.addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.target.matches("input[type=number]")) return;
      const key = event.key.toLowerCase();
      if (key !== "z" && key !== "y") return;
      this.travel(key === "y" || event.shiftKey ? "forth" : "back");
      event.preventDefault();
    });
    addEventListener("hashchange", () => {
      if (location.hash.replace(/^#/, "") === encode(this.state, this.site)) return;
      this.history.forget();
      this.setState(decode(location.hash, this.site));
      this.choose();
    });
    new ResizeObserver(() => this.draw({ fit: true })).observe(find("frame"));
  }

  // --- state

  setState(state) {
    this.state = { ...state, points: state.points.map((point) => ({ ...point, id: this.fresh() })) };
  }

  get card() {
    return this.site.models.find((each) => each.name === this.state.model);
  }

  // The picture of functions of as many inputs as the model has.
  get plot() {
    return this.pictures[this.card.inputs];
  }

  get isMap() {
    return this.card.inputs === 2;
  }

  get data() {
    return this.allData.inputs === this.card.inputs ? this.allData.curves : [];
  }

  fresh() {
    this.nextId += 1;
    return String(this.nextId);
  }

  change(part, { goesOn = false } = {}) {
    const before = this.state;
    this.state = { ...before, ...part };
    if ("model" in part) {
      this.state = { ...this.state, output: 0, moved: {}, ...this.#fitting(this.card) };
      this.history.forget();
      this.choose();
      return;
    }
    if ("output" in part) this.answer = this.latent = null;
    this.write();
    this.panel.show(this.state);
    if ("draws" in part || "which" in part || "down" in part) this.draw({ fit: "down" in part });
    const askedBefore = JSON.stringify(question(before));
    if (JSON.stringify(question(this.state)) !== askedBefore) this.functions.put(question(this.state), { goesOn });
    if ("moved" in part || "output" in part || "resolution" in part) this.askLatent(goesOn);
  }

  // What a model that is switched to keeps of the state: points in its domain, and what it can do.
  #fitting(card) {
    const points = this.state.points.filter((each) => isPlaced(each, card));
    const resolution = card.resolutions.includes(this.state.resolution) ? this.state.resolution : card.resolution;
    return { points, resolution, down: card.image, exactness: card.noise_scale ? this.state.exactness : 0 };
  }

  write() {
    const hash = encode(this.state, this.site);
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname);
  }

  // --- a model

  async choose() {
    const { card } = this;
    this.answer = this.latent = this.chosen = this.value = null;
    this.functions.drop();
    this.latents.drop();
    this.write();
    const main = document.querySelector("main");
    main.classList.toggle("other", !this.plot);
    main.classList.toggle("maps", this.isMap);
    for (const [inputs, { svg }] of Object.entries(this.pictures)) svg.toggleAttribute("hidden", Number(inputs) !== card.inputs);
    find("elsewhere").hidden = Boolean(this.plot);
    find("elsewhere").textContent = card.remarks.join(" ");
    find("about").textContent = `febm ${this.site.version} · ${card.path} · served on this machine only`;
    document.title = `${card.name} · febm explore`;
    this.panel.showModel(card, this.data);
    this.panel.show(this.state);
    if (!this.plot) return;
    this.draw({ fit: true });
    say(card.remarks.join(" "));
    this.caption();
    wait(true);
    try {
      if (!this.details.has(card.name)) this.details.set(card.name, await ask("/api/details", { model: card.name }));
    } catch (error) {
      wait(false);
      say(error.message, true);
      return;
    }
    if (this.card !== card) return;
    this.panel.showDirections(this.details.get(card.name));
    this.panel.show(this.state);
    this.draw({ fit: true });
    this.functions.put(question(this.state));
    this.askLatent(false);
  }

  askLatent(goesOn) {
    if (!Object.keys(this.state.moved).length || this.details.get(this.card.name)?.without_latents) {
      this.latents.drop();
      this.latent = null;
      this.draw();
      return;
    }
    const { model, output, resolution, moved } = this.state;
    this.latents.put({ model, output, resolution, moved }, { goesOn });
  }

  answered(answer, asked, took) {
    this.answer = answer;
    this.asked = asked;
    find("took").textContent = `answered in ${Math.round(took)} ms`;
    this.draw({ fit: !this.dragging });
    const remarks = [...this.card.remarks, ...answer.notes];
    const count = asked.points.length;
    const draws = `${this.isMap ? "a draw" : "draws"} of seed ${asked.seed}.`;
    const given = count === 0 ? `No points: ${draws}` : `Given ${count} point${count === 1 ? "" : "s"}: ${draws}`;
    const reading = this.looked?.kind === "cursor" ? [this.#reading()] : [];
    say([given, ...reading, ...remarks].join(" "));
    this.read();
  }

  // --- points

  setPoints(points, { goesOn = false } = {}) {
    this.state = { ...this.state, points };
    this.write();
    this.draw();
    this.functions.put(question(this.state), { goesOn });
  }

  add(at) {
    if (this.state.points.length >= 100 || !this.plot.box) return null;
    this.history.remember(this.state.points);
    const point = { y: this.nextValue(), ...this.plot.round(at), output: this.state.output, id: this.fresh() };
    if (this.isMap) this.chosen = point.id;
    this.setPoints([...this.state.points, point]);
    return point.id;
  }

  place(id, at) {
    this.dragging = true;
    const where = this.plot.round(at);
    this.setPoints(this.state.points.map((point) => (point.id === id ? { ...point, ...where } : point)), { goesOn: true });
    this.look(where);
  }

  nudge(id, across, up) {
    const point = this.state.points.find((each) => each.id === id);
    this.history.remember(this.state.points, `nudge ${id}`);
    const where = this.plot.round(this.plot.stepped(point, across, up, Infinity));
    this.setPoints(this.state.points.map((each) => (each.id === id ? { ...each, ...where } : each)), { goesOn: true });
  }

  edit(id, name, number) {
    const put = (point) => {
      if (name === "y") return { ...point, y: number };
      const input = name === "x" ? 0 : Number(name.slice(1));
      const inside = clamp(number, ...this.card.domain[input]);
      return { ...point, x: this.isMap ? point.x.map((value, i) => (i === input ? inside : value)) : inside };
    };
    this.history.remember(this.state.points);
    this.setPoints(this.state.points.map((point) => (point.id === id ? put(point) : point)));
    this.settle();
  }

  // --- values, where they are no coordinate of the picture

  choosePoint(id) {
    if (!this.isMap || this.chosen === id) return;
    this.chosen = id;
    this.draw();
  }

  nextValue() {
    const [low, high] = this.valueRange();
    return this.value ?? rounded((low + high) / 2, high - low);
  }

  valueRange() {
    return this.details.get(this.card.name)?.range[this.state.output] ?? [0, 1];
  }

  // The value of a point or, where `id` is null, of the next.
  setValue(id, value, { goesOn = false } = {}) {
    this.value = value;
    if (id === null) {
      this.draw();
      return;
    }
    this.history.remember(this.state.points, `value ${id}`);
    this.setPoints(this.state.points.map((point) => (point.id === id ? { ...point, y: value } : point)), { goesOn });
  }

  raise(id, steps) {
    if (!this.isMap) return false;
    const [low, high] = this.valueRange();
    const point = this.state.points.find((each) => each.id === id);
    const value = (point?.y ?? this.nextValue()) + steps * STEP * (high - low);
    this.setValue(id, rounded(value, high - low), { goesOn: true });
    say(`Value of ${point ? "the point" : "the next point"}: ${this.plot.shownValue(this.value)}`);
    return true;
  }

  remove(id) {
    this.history.remember(this.state.points);
    this.setPoints(this.state.points.filter((point) => point.id !== id));
  }

  clear() {
    if (!this.state.points.length) return;
    this.history.remember(this.state.points);
    this.setPoints([]);
    this.settle();
  }

  travel(way) {
    const points = this.history[way](this.state.points);
    if (!points) return;
    this.setPoints(points);
    this.settle();
  }

  settle() {
    this.dragging = false;
    this.draw({ fit: true });
  }

  // --- showing

  draw({ fit = false } = {}) {
    const details = this.details.get(this.card.name);
    if (!details || !this.plot) return;
    const { card, state, answer, latent, data, chosen } = this;
    const shown = { card, state, details, answer, latent, data, chosen };
    if (fit) this.plot.frame(shown);
    this.plot.show(shown);
    if (!this.plot.box) return;
    const { points } = state;
    this.table.show(points, card, this.plot.steps());
    if (this.isMap) this.#showValue(points);
    find("hint").hidden = points.length > 0 || !this.answer;
    find("undo").disabled = !this.history.past.length;
    find("redo").disabled = !this.history.future.length;
    find("clear").disabled = !points.length;
    find("key-data").hidden = !this.data.length;
    find("key-latent").hidden = !this.latent;
    this.caption();
  }

  #showValue(points) {
    const place = points.findIndex((each) => each.id === this.chosen);
    if (place < 0) this.chosen = null;
    else this.value = points[place].y;
    this.valueControl.show(this.nextValue(), this.plot.ends, place < 0 ? null : place);
  }

  caption() {
    const count = this.state.points.length;
    const text = count
      ? `Functions given ${count} point${count === 1 ? "" : "s"}`
      : "New functions: nothing is known yet";
    find("caption").textContent = text;
    const where = this.card.outputs > 1 ? `, output ${this.state.output}` : "";
    const kind = this.isMap ? ", as maps of two inputs" : "";
    this.plot.svg.setAttribute("aria-label", `${text}${kind}, model ${this.card.name}${where}. Arrow keys move the cursor, Enter places a point.`);
  }

  // What the model says where the mouse or the cursor is.
  look(at, kind) {
    this.looked = at && { at, kind };
    if (kind !== "cursor") this.plot.drawHair(at, "mouse");
    this.read();
    if (kind === "cursor") say(find("readout").textContent);
  }

  read() {
    find("readout").textContent = this.looked && this.answer ? this.#reading() : "";
  }

  #reading() {
    return this.plot.reading(this.looked.at, this.answer, this.state.level);
  }
}

try {
  globalThis.page = new Page(...(await Promise.all([ask("/api/models"), ask("/api/data")])));
} catch (error) {
  find("caption").textContent = "The page could not be loaded";
  find("status").textContent = error.message;
}
