// What the page shows, as plain values: in the hash of the address, so that a link reproduces a view, and undone.

export function initialState(site) {
  return {
    model: site.models[0].name,
    output: 0,
    resolution: site.resolution,
    draws: 20,
    level: 90,
    noise: false,
    exactness: 0, // quarters of a power of ten
    fullEffort: false,
    seed: 0,
    points: [],
    moved: {},
  };
}

export function encode(state, initial) {
  const parts = new URLSearchParams();
  const put = (name, value, usual) => value !== usual && parts.set(name, value);
  put("model", state.model, initial.model);
  put("output", state.output, initial.output);
  put("resolution", state.resolution, initial.resolution);
  put("draws", state.draws, initial.draws);
  put("level", state.level, initial.level);
  put("exactness", state.exactness, initial.exactness);
  put("seed", state.seed, initial.seed);
  if (state.noise) parts.set("noise", 1);
  if (state.fullEffort) parts.set("effort", "full");
  const points = state.points.map((each) => [each.x, each.y, ...(each.output ? [each.output] : [])].join(","));
  if (points.length) parts.set("points", points.join(";"));
  const moved = Object.entries(state.moved).map(([name, value]) => `${name}:${value}`);
  if (moved.length) parts.set("moved", moved.join(","));
  return parts.toString().replaceAll("%2C", ",").replaceAll("%3B", ";").replaceAll("%3A", ":");
}

// What a hash says, where it makes sense; the rest is as at first.
export function decode(hash, site) {
  const state = initialState(site);
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const card = site.models.find((each) => each.name === parts.get("model")) ?? site.models[0];
  state.model = card.name;
  const whole = (name, low, high, usual) => {
    const value = Number(parts.get(name) ?? NaN);
    return Number.isInteger(value) && value >= low && value <= high ? value : usual;
  };
  state.output = whole("output", 0, card.outputs - 1, 0);
  const resolution = whole("resolution", 1, 1e6, state.resolution);
  if (site.resolutions.includes(resolution)) state.resolution = resolution;
  state.draws = whole("draws", 0, site.draws, state.draws);
  state.level = whole("level", 50, 99, state.level);
  state.exactness = card.noise_scale ? whole("exactness", -8, 8, 0) : 0;
  state.seed = whole("seed", 0, 2 ** 31 - 1, 0);
  state.noise = parts.get("noise") === "1";
  state.fullEffort = parts.get("effort") === "full";
  state.points = (parts.get("points") ?? "").split(";").filter(Boolean).slice(0, 100).map((text) => {
    const [x, y, output = 0] = text.split(",").map(Number);
    return { x, y, output };
  }).filter(({ x, y, output }) => isPlaced(x, y, output, card));
  for (const text of (parts.get("moved") ?? "").split(",").filter(Boolean)) {
    const [name, value] = text.split(":").map(Number);
    if (Number.isInteger(name) && name >= 0 && Math.abs(value) <= site.farthest) state.moved[name] = value;
  }
  return state;
}

function isPlaced(x, y, output, card) {
  const [low, high] = card.domain ?? [0, 0];
  return x >= low && x <= high && Number.isFinite(y) && output >= 0 && output < card.outputs;
}

export const noiseFactor = (state) => Number((10 ** (state.exactness / 4)).toPrecision(3));

// The request that belongs to a state.
export function question(state) {
  return {
    model: state.model,
    output: state.output,
    resolution: state.resolution,
    level: state.level / 100,
    noise: state.noise,
    noise_factor: noiseFactor(state),
    full_effort: state.fullEffort,
    seed: state.seed,
    points: state.points.map(({ x, y, output }) => ({ x, y, output })),
  };
}

// Points before and after, for undo and redo. Steps of one kind that follow each other quickly are one.
export class History {
  constructor() {
    this.forget();
  }

  forget() {
    this.past = [];
    this.future = [];
    this.last = { kind: null, time: 0 };
  }

  remember(points, kind = null) {
    const now = Date.now();
    const goesOn = kind !== null && kind === this.last.kind && now - this.last.time < 1000;
    this.last = { kind, time: now };
    this.future = [];
    if (!goesOn) this.past.push(points);
  }

  back(points) {
    return this.#swap(this.past, this.future, points);
  }

  forth(points) {
    return this.#swap(this.future, this.past, points);
  }

  #swap(from, to, points) {
    if (!from.length) return null;
    to.push(points);
    this.last = { kind: null, time: 0 };
    return from.pop();
  }
}
