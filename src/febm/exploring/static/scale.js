// Axes: a linear map from values to pixels, ticks at round numbers, and numbers as people write them.

const SVG = "http://www.w3.org/2000/svg";
export const STEP = 0.01; // of an axis, for an arrow key

export function element(name, attributes = {}, parent = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

export function linear([low, high], [start, end]) {
  const slope = (end - start) / (high - low);
  const scale = (value) => start + (value - low) * slope;
  scale.invert = (pixel) => low + (pixel - start) / slope;
  scale.domain = [low, high];
  scale.range = [start, end];
  return scale;
}

// Multiples of 1, 2 or 5 times a power of ten, about `count` of them.
export function ticks([low, high], count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= high / step + 1e-9; i += 1) {
    const value = i * step;
    found.push({ value, label: tickLabel(value, step, decimals) });
  }
  return found;
}

function tickLabel(value, step, decimals) {
  const size = Math.abs(value);
  if (size < step / 1e6) return "0";
  if (size >= 1e6 || step < 1e-5) return written(value.toExponential(step < size ? 2 : 0).replace(/\.?0+e/, "e"));
  return written(value.toFixed(decimals));
}

// With the minus sign of the typographer, which a screen reader knows too.
export function written(text) {
  return String(text).replace("-", "−");
}

// The value with as many digits as can be told apart on an axis of this span.
export function rounded(value, span) {
  const step = 10 ** (Math.floor(Math.log10(span || 1)) - 3);
  return Number((Math.round(value / step) * step).toPrecision(12));
}

export function shownNumber(value, span) {
  const decimals = Math.min(12, Math.max(0, 2 - Math.floor(Math.log10(span || 1))));
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-4)) return written(value.toPrecision(3));
  return written(value.toFixed(decimals));
}
