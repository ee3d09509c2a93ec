// Questions to the server, of which only the latest matters.

export async function ask(path, body, signal) {
  const request = body === undefined
    ? { signal }
    : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
  let response;
  try {
    response = await fetch(path, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer; is febm explore still running?");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error ?? `The server could not answer (${response.status}).`);
  return answer;
}

// While a question is on its way, newer ones of a drag wait, the newest only; one that makes the old worthless aborts it.
export class Latest {
  constructor(path, { answered, failed, busy }) {
    Object.assign(this, { answered, failed, busy });
    this.path = path;
    this.controller = null;
    this.waiting = null;
  }

  put(asked, { goesOn = false } = {}) {
    if (this.controller && goesOn) {
      this.waiting = asked;
      return;
    }
    this.drop();
    this.#send(asked);
  }

  drop() {
    this.waiting = null;
    this.controller?.abort();
    this.controller = null;
    this.busy(false);
  }

  async #send(asked) {
    const controller = new AbortController();
    this.controller = controller;
    this.busy(true);
    const started = performance.now();
    try {
      const path = typeof this.path === "function" ? this.path(asked) : this.path;
      const answer = await ask(path, asked, controller.signal);
      if (this.controller === controller) this.answered(answer, asked, performance.now() - started);
    } catch (error) {
      if (this.controller === controller && error.name !== "AbortError") this.failed(error);
    }
    if (this.controller !== controller) return;
    this.controller = null;
    const next = this.waiting;
    this.waiting = null;
    if (next) this.#send(next);
    else this.busy(false);
  }
}
