// What the page shows, as plain values: in the hash of the address, so that a link reproduces a view, and undone.

export function initialState(card) {
  return {
    model: card.name,
    output: 0,
    resolution: card.resolution,
    draws: 20,
    level: 90,
    noise: false,
    exactness: 0, // quarters of a power of ten
    fullEffort: false,
    seed: 0,
    points: [],
    moved: {},
    down: card.image, // of maps: whether the first input runs down
    which: 0, // of the data beside maps
  };
}

export function encode(state, site) {
  const parts = new URLSearchParams();
  const initial = initialState(site.models.find((each) => each.name === state.model));
  const put = (name, value, usual) => value !== usual && parts.set(name, value);
  put("model", state.model, site.models[0].name);
  put("output", state.output, initial.output);
  put("resolution", state.resolution, initial.resolution);
  put("draws", state.draws, initial.draws);
  put("level", state.level, initial.level);
  put("exactness", state.exactness, initial.exactness);
  put("seed", state.seed, initial.seed);
  put("down", Number(state.down), Number(initial.down));
  put("data", state.which, initial.which);
  if (state.noise) parts.set("noise", 1);
  if (state.fullEffort) parts.set("effort", "full");
  const points = state.points.map((each) => [each.x, each.y, ...(each.output ? [each.output] : [])].flat().join(","));
  if (points.length) parts.set("points", points.join(";"));
  const moved = Object.entries(state.moved).map(([name, value]) => `${name}:${value}`);
  if (moved.length) parts.set("moved", moved.join(","));
  return parts.toString().replaceAll("%2C", ",").replaceAll("%3B", ";").replaceAll("%3A", ":");
}

// What a hash says, where it makes sense; the rest is as at first.
export function decode(hash, site) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const card = site.models.find((each) => each.name === parts.get("model")) ?? site.models[0];
  const state = initialState(card);
  const whole = (name, low, high, usual) => {
    const value = Number(parts.get(name) ?? NaN);
    return Number.isInteger(value) && value >= low && value <= high ? value : usual;
  };
  state.output = whole("output", 0, card.outputs - 1, 0);
  const resolution = whole("resolution", 1, 1e6, state.resolution);
  if (card.resolutions.includes(resolution)) state.resolution = resolution;
  state.draws = whole("draws", 0, site.draws, state.draws);
  state.level = whole("level", 50, 99, state.level);
  state.exactness = card.noise_scale ? whole("exactness", -8, 8, 0) : 0;
  state.seed = whole("seed", 0, 2 ** 31 - 1, 0);
  state.down = whole("down", 0, 1, Number(state.down)) === 1;
  state.which = whole("data", 0, 1e6, 0);
  state.noise = parts.get("noise") === "1";
  state.fullEffort = parts.get("effort") === "full";
  state.points = (parts.get("points") ?? "").split(";").filter(Boolean).slice(0, 100).map((text) => {
    const numbers = text.split(",").map(Number);
    const x = card.inputs === 1 ? numbers[0] : numbers.slice(0, card.inputs);
    const [y, output = 0] = numbers.slice(card.inputs);
    return { x, y, output };
  }).filter((point) => isPlaced(point, card));
  for (const text of (parts.get("moved") ?? "").split(",").filter(Boolean)) {
    const [name, value] = text.split(":").map(Number);
    if (Number.isInteger(name) && name >= 0 && Math.abs(value) <= site.farthest) state.moved[name] = value;
  }
  return state;
}

// Whether a point is one of this model's: as many coordinates, in its domain, and an output that it has.
export function isPlaced({ x, y, output }, card) {
  const places = [x].flat();
  const isInside = places.length === card.domain?.length && places.every((value, i) => value >= card.domain[i][0] && value <= card.domain[i][1]);
  return isInside && Number.isFinite(y) && output >= 0 && output < card.outputs;
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
