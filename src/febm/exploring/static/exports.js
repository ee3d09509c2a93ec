// What is shown, to take away: a table, a picture, lines of Python, and a link.

import { ask } from "./questions.js";
import { question } from "./state.js";
import { say } from "./status.js";

const find = (id) => document.getElementById(id);

// What the buttons do, by their ids.
export function exporting(page) {
  const name = () => `${page.card.name.split(/[\\/]/).at(-1)}-explore`;
  return {
    "export-csv": () => page.answer && save(`${name()}.csv`, table(page.answer, page.state.draws, page.latent), "text/csv"),
    "export-png": async () => {
      const caption = `${page.card.name}: ${find("caption").textContent}`;
      if (page.answer) save(`${name()}.png`, await picture(page.plot.svg, caption));
    },
    "export-lines": () => showLines(page.state),
    "export-link": () => copy(location.href, "The link is copied: it opens this view while febm explore runs."),
    "lines-close": () => find("lines-dialog").close(),
    "lines-copy": () => copy(find("lines").textContent, "The lines are copied."),
    "lines-save": () => save(`${name()}.py`, find("lines").textContent, "text/x-python"),
  };
}

async function showLines(state) {
  try {
    const { lines } = await ask("/api/lines", { ...question(state), shown: state.draws, moved: state.moved });
    find("lines").textContent = lines;
    find("lines-dialog").showModal();
  } catch (error) {
    say(error.message, true);
  }
}

async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    say(done);
  } catch {
    say("The browser does not let the page copy; select the text, or the address of the page, by hand.", true);
  }
}

function save(name, contents, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(contents instanceof Blob ? contents : new Blob([contents], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// One row a point; numbers with all their digits.
function table(answer, shown, latent) {
  const draws = answer.draws.slice(0, shown);
  const isMap = Array.isArray(answer.x[0]);
  const names = [...(isMap ? ["x0", "x1"] : ["x"]), "mean", "lower", "upper", ...draws.map((_, i) => `draw${i}`)];
  const places = isMap ? [0, 1].map((input) => answer.x.map((place) => place[input])) : [answer.x];
  const columns = [...places, answer.mean, answer.lower, answer.upper, ...draws];
  if (latent) {
    names.push("latent_curve");
    columns.push(latent.curve);
  }
  const rows = answer.x.map((_, i) => columns.map((column) => column[i] ?? "").join(","));
  return [names.join(","), ...rows].join("\n") + "\n";
}

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-size", "font-family", "font-weight", "image-rendering"];
const MARGIN = { top: 40, side: 12, bottom: 12 };
const DETAIL = 2; // pixels a pixel

// The plot as it looks now, under its caption. Styles go along as attributes: outside the page there is no sheet.
async function picture(svg, caption) {
  const { width, height } = svg.getBoundingClientRect();
  const copy = svg.cloneNode(true);
  const [originals, copies] = [svg, copy].map((root) => root.querySelectorAll("path, line, circle, text, rect, image"));
  originals.forEach((original, i) => {
    const style = getComputedStyle(original);
    for (const name of STYLES) copies[i].setAttribute(name, style.getPropertyValue(name));
  });
  copy.querySelectorAll(".halo, .reach, .hair, .cursor").forEach((each) => each.remove());
  for (const name of [...copy.attributes].map((each) => each.name)) if (name !== "viewBox") copy.removeAttribute(name);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width * DETAIL);
  copy.setAttribute("height", height * DETAIL);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();

  const canvas = document.createElement("canvas");
  canvas.width = (width + 2 * MARGIN.side) * DETAIL;
  canvas.height = (height + MARGIN.top + MARGIN.bottom) * DETAIL;
  const context = canvas.getContext("2d");
  const style = getComputedStyle(svg.closest(".stage"));
  context.fillStyle = style.backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = style.color;
  context.font = `600 ${15 * DETAIL}px ${style.fontFamily}`;
  context.fillText(caption, (MARGIN.side + 8) * DETAIL, 26 * DETAIL, canvas.width - 2 * (MARGIN.side + 8) * DETAIL);
  context.drawImage(image, MARGIN.side * DETAIL, MARGIN.top * DETAIL);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
