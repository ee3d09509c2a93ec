// Values as colours: ramps that grow lighter (or darker) all the way, and cells drawn with them.

// From dark to light: told apart by people who do not see red or green, and in grey.
export const VALUES = ["#1b1c4f", "#27497f", "#2a7a8c", "#4ba37b", "#a5c75f", "#f6ecaa"];
// Pale where the model is sure.
export const UNCERTAINTY = ["#fdf6ee", "#f5cfa7", "#e69558", "#b95a27", "#69290f"];

const channels = (text) => [1, 3, 5].map((start) => Number.parseInt(text.slice(start, start + 2), 16));

// The colour of a value between the two ends; what is beyond has that of the end.
export function colour(value, [low, high], ramp) {
  const share = Math.min(Math.max((value - low) / (high - low || 1), 0), 1) * (ramp.length - 1);
  const i = Math.min(Math.floor(share), ramp.length - 2);
  const [before, after] = [channels(ramp[i]), channels(ramp[i + 1])];
  return before.map((channel, k) => Math.round(channel + (share - i) * (after[k] - channel)));
}

export const written = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

// An image of rows of values, from the top; what is null stays clear.
export function painted(rows, ends, ramp) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [rows[0].length, rows.length];
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  rows.flat().forEach((value, i) => {
    if (value !== null) image.data.set([...colour(value, ends, ramp), 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

// The ramp itself, the highest value at the top.
export function bar(ramp, steps = 64) {
  const rows = Array.from({ length: steps }, (_, i) => [1 - (i + 0.5) / steps]);
  return painted(rows, [0, 1], ramp);
}
