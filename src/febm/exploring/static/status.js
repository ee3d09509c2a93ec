// The line under the picture, and the sign that something is being computed.

const PATIENCE = 250; // milliseconds before the page says that it waits
const LONG = 1500; // and before it says why

const find = (id) => document.getElementById(id);
let timers = [];

export function say(text, wrong = false) {
  const status = find("status");
  status.classList.toggle("wrong", wrong);
  if (status.textContent !== text) status.textContent = text;
}

export function wait(busy) {
  timers.forEach(clearTimeout);
  timers = [];
  find("frame").setAttribute("aria-busy", String(busy));
  if (!busy) {
    find("busy").hidden = true;
    return;
  }
  const show = () => (find("busy").hidden = false);
  const explain = () => (find("busy-text").textContent = "Compiling: the first answers of a model take some seconds");
  find("busy-text").textContent = "Computing…";
  timers = [setTimeout(show, PATIENCE), setTimeout(explain, LONG)];
}
