// The page: holds the state, asks the server, and shows what it says.

import { picture, save, table } from "./exports.js";
import { Panel, PointTable } from "./panel.js";
import { Plot } from "./plot.js";
import { listen } from "./pointing.js";
import { ask, Latest } from "./questions.js";
import { rounded } from "./scale.js";
import { decode, encode, History, initialState, question } from "./state.js";
import { say, wait } from "./status.js";

const find = (id) => document.getElementById(id);
const STEP = 0.01; // of an axis, for an arrow key
const ROOM = 0.08; // of the range, above and below what is in sight

class Page {
  constructor(site, data) {
    this.site = site;
    this.data = data;
    this.initial = initialState(site);
    this.history = new History();
    this.nextId = 0;
    this.answer = null;
    this.latent = null;
    this.details = new Map();
    this.plot = new Plot(find("plot"));
    this.panel = new Panel(site, (part, how) => this.change(part, how));
    this.table = new PointTable({
      edit: (id, part) => this.edit(id, part),
      remove: (id) => this.remove(id),
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
    listen(this.plot, {
      add: (at) => this.add(at),
      move: (id, at) => this.place(id, at),
      grab: () => this.history.remember(this.state.points),
      nudge: (id, across, up) => this.nudge(id, across, up),
      remove: (id) => this.remove(id),
      settle: () => this.settle(),
      look: (at, kind) => this.look(at, kind),
      middle: () => this.middle(),
      stepped: (at, across, up) => this.stepped(at, across, up),
    });
    const clicks = {
      undo: () => this.travel("back"),
      redo: () => this.travel("forth"),
      clear: () => this.clear(),
      shuffle: () => this.change({ seed: this.state.seed + 1 }),
      "export-csv": () => this.saveTable(),
      "export-png": () => this.savePicture(),
      "export-lines": () => this.showLines(),
      "export-link": () => this.copy(location.href, "The link is copied: it opens this view while febm explore runs."),
      "lines-close": () => find("lines-dialog").close(),
      "lines-copy": () => this.copy(find("lines").textContent, "The lines are copied."),
      "lines-save": () => save(`${this.name()}.py`, find("lines").textContent, "text/x-python"),
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
      if (location.hash.replace(/^#/, "") === encode(this.state, this.initial)) return;
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
    if ("draws" in part) this.draw();
    const askedBefore = JSON.stringify(question(before));
    if (JSON.stringify(question(this.state)) !== askedBefore) this.functions.put(question(this.state), { goesOn });
    if ("moved" in part || "output" in part || "resolution" in part) this.askLatent(goesOn);
  }

  // What a model that is switched to keeps of the state: points in its domain, and what it can do.
  #fitting(card) {
    const [low, high] = card.domain ?? [0, 0];
    const points = this.state.points.filter((each) => each.x >= low && each.x <= high && each.output < card.outputs);
    return { points, exactness: card.noise_scale ? this.state.exactness : 0 };
  }

  write() {
    const hash = encode(this.state, this.initial);
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname);
  }

  // --- a model

  async choose() {
    const { card } = this;
    this.answer = this.latent = null;
    this.functions.drop();
    this.latents.drop();
    this.write();
    document.querySelector("main").classList.toggle("other", card.inputs !== 1);
    find("elsewhere").hidden = card.inputs === 1;
    find("elsewhere").textContent = card.remarks.join(" ");
    find("about").textContent = `febm ${this.site.version} · ${card.path} · served on this machine only`;
    document.title = `${card.name} · febm explore`;
    this.panel.showModel(card);
    this.panel.show(this.state);
    this.plot.drawFunctions(null, 0);
    this.plot.drawLatent(null);
    if (card.inputs !== 1) return;
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
    const draws = `draws of seed ${asked.seed}.`;
    const given = count === 0 ? `No points: ${draws}` : `Given ${count} point${count === 1 ? "" : "s"}: ${draws}`;
    const reading = this.looked?.kind === "cursor" ? [this.#reading(this.looked.at)] : [];
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
    if (this.state.points.length >= 100 || !this.plot.view) return null;
    this.history.remember(this.state.points);
    const point = { ...this.#round(at), output: this.state.output, id: this.fresh() };
    this.setPoints([...this.state.points, point]);
    return point.id;
  }

  place(id, at) {
    this.dragging = true;
    const where = this.#round(at);
    this.setPoints(this.state.points.map((point) => (point.id === id ? { ...point, ...where } : point)), { goesOn: true });
    this.look(where);
  }

  nudge(id, across, up) {
    const point = this.state.points.find((each) => each.id === id);
    this.history.remember(this.state.points, `nudge ${id}`);
    const where = this.#round(this.stepped(point, across, up, Infinity));
    this.setPoints(this.state.points.map((each) => (each.id === id ? { ...each, ...where } : each)), { goesOn: true });
  }

  edit(id, part) {
    const [low, high] = this.card.domain;
    const x = part.x === undefined ? {} : { x: Math.min(Math.max(part.x, low), high) };
    this.history.remember(this.state.points);
    this.setPoints(this.state.points.map((point) => (point.id === id ? { ...point, ...part, ...x } : point)));
    this.settle();
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

  #round({ x, y }) {
    const { domain, range } = this.plot.view;
    const [low, high] = domain;
    const near = rounded(x, high - low);
    return { x: Math.min(Math.max(near, low), high), y: rounded(y, range[1] - range[0]) };
  }

  middle() {
    const { domain, range } = this.plot.view;
    return { x: (domain[0] + domain[1]) / 2, y: (range[0] + range[1]) / 2 };
  }

  stepped(at, across, up, beyond = 0) {
    const { domain, range } = this.plot.view;
    const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
    const y = at.y + up * STEP * (range[1] - range[0]);
    return {
      x: clamp(at.x + across * STEP * (domain[1] - domain[0]), ...domain),
      y: beyond ? y : clamp(y, ...range),
    };
  }

  // --- showing

  draw({ fit = false } = {}) {
    const details = this.details.get(this.card.name);
    if (!details || !this.card.domain) return;
    const { output, points } = this.state;
    if (fit || !this.plot.view) this.plot.frame({ domain: this.card.domain, range: this.range(details.range[output]) });
    if (!this.plot.x) return;
    this.plot.drawData(this.data, output);
    this.plot.drawFunctions(this.answer, this.state.draws);
    this.plot.drawLatent(this.latent);
    this.plot.drawPoints(points, output, this.card.outputs);
    const { domain, range } = this.plot.view;
    const step = (span) => rounded(span * STEP, span) || "any";
    this.table.show(points, this.card.outputs, { x: step(domain[1] - domain[0]), y: step(range[1] - range[0]) });
    find("hint").hidden = points.length > 0 || !this.answer;
    find("undo").disabled = !this.history.past.length;
    find("redo").disabled = !this.history.future.length;
    find("clear").disabled = !points.length;
    find("key-data").hidden = !this.data.length;
    find("key-latent").hidden = !this.latent;
    this.caption();
  }

  // Nearly all draws of the prior, the points, and the band where it is not far out of sight.
  range([low, high]) {
    const room = ROOM * (high - low) || 1;
    const [lowest, highest] = [low - (high - low), high + (high - low)];
    const { output } = this.state;
    const values = this.state.points.filter((point) => point.output === output).map((point) => point.y);
    if (this.answer) {
      const ends = [...this.answer.lower, ...this.answer.upper].filter((value) => value !== null);
      values.push(...ends.map((value) => Math.min(Math.max(value, lowest), highest)));
    }
    return [Math.min(low, ...values) - room, Math.max(high, ...values) + room];
  }

  caption() {
    const count = this.state.points.length;
    const text = count
      ? `Functions given ${count} point${count === 1 ? "" : "s"}`
      : "New functions: nothing is known yet";
    find("caption").textContent = text;
    const where = this.card.outputs > 1 ? `, output ${this.state.output}` : "";
    this.plot.svg.setAttribute("aria-label", `${text}, model ${this.card.name}${where}. Arrow keys move the cursor, Enter places a point.`);
  }

  // What the model says where the mouse or the cursor is.
  look(at, kind) {
    this.looked = at && { at, kind };
    if (kind !== "cursor") this.plot.drawHair(at, "mouse");
    this.read();
    if (kind === "cursor") say(find("readout").textContent);
  }

  read() {
    find("readout").textContent = this.looked && this.answer ? this.#reading(this.looked.at) : "";
  }

  #reading({ x }) {
    const { answer, plot } = this;
    const [first, last] = [answer.x[0], answer.x.at(-1)];
    const i = Math.min(Math.max(Math.round(((x - first) / (last - first || 1)) * (answer.x.length - 1)), 0), answer.x.length - 1);
    const [mean, lower, upper] = [answer.mean[i], answer.lower[i], answer.upper[i]].map((value) => (value === null ? "?" : plot.shownY(value)));
    return `At ${plot.shownX(answer.x[i])}: mean ${mean}, ${this.state.level} % from ${lower} to ${upper}`;
  }

  // --- taking away

  name() {
    return `${this.card.name.split(/[\\/]/).at(-1)}-explore`;
  }

  saveTable() {
    if (this.answer) save(`${this.name()}.csv`, table(this.answer, this.state.draws, this.latent), "text/csv");
  }

  async savePicture() {
    if (this.answer) save(`${this.name()}.png`, await picture(this.plot.svg, `${this.card.name}: ${find("caption").textContent}`));
  }

  async showLines() {
    try {
      const { lines } = await ask("/api/lines", { ...question(this.state), shown: this.state.draws, moved: this.state.moved });
      find("lines").textContent = lines;
      find("lines-dialog").showModal();
    } catch (error) {
      say(error.message, true);
    }
  }

  async copy(text, done) {
    try {
      await navigator.clipboard.writeText(text);
      say(done);
    } catch {
      say("The browser does not let the page copy; select the text, or the address of the page, by hand.", true);
    }
  }
}

try {
  const [site, { curves }] = await Promise.all([ask("/api/models"), ask("/api/data")]);
  globalThis.page = new Page(site, curves);
} catch (error) {
  find("caption").textContent = "The page could not be loaded";
  find("status").textContent = error.message;
}
