// Hands on the picture: mouse, finger and keys place, move and remove points.

const MOVED = 5; // pixels; less is a click
const TWICE = 400; // milliseconds between the clicks of a double click
const RAISED = { PageUp: 5, PageDown: -5, "+": 1, "-": -1 }; // steps of a value

export function listen(plot, actions) {
  const { svg } = plot;
  let drag = null;
  let cursor = null;
  let clicked = { id: null, time: 0 };

  const pointOf = (event) => event.target.closest?.(".point")?.dataset.id ?? null;

  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || drag || !plot.box) return;
    const id = pointOf(event);
    hideCursor();
    if (id === null && !plot.isInside(event)) return;
    drag = { pointer: event.pointerId, id, isNew: false, moved: false, x: event.clientX, y: event.clientY };
    plot.hold?.(event);
    // A finger on the background may be about to scroll: its point is placed when it has turned out to be a tap.
    if (id === null && event.pointerType === "touch") return;
    if (id === null) {
      drag.id = actions.add(plot.locate(event));
      drag.isNew = true;
    }
    svg.setPointerCapture(event.pointerId);
    plot.dots.get(drag.id)?.focus({ preventScroll: true });
    event.preventDefault();
  });

  svg.addEventListener("pointermove", (event) => {
    if (!plot.box) return;
    if (!drag) {
      actions.look(event.pointerType !== "touch" && plot.isInside(event) ? plot.locate(event) : null);
      return;
    }
    if (event.pointerId !== drag.pointer) return;
    if (Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > MOVED) {
      if (!drag.moved && drag.id !== null && !drag.isNew) actions.grab();
      drag.moved = true;
    }
    if (drag.moved && drag.id !== null) actions.move(drag.id, plot.locate(event));
  });

  const release = (event, happened) => {
    if (!drag || event.pointerId !== drag.pointer) return;
    const { id, isNew, moved } = drag;
    drag = null;
    plot.hold?.(null);
    if (happened && id === null && !moved && plot.isInside(event)) {
      actions.add(plot.locate(event));
    } else if (happened && id !== null && !moved && !isNew) {
      const now = performance.now();
      if (clicked.id === id && now - clicked.time < TWICE) actions.remove(id);
      clicked = { id, time: now };
    }
    actions.settle();
  };
  svg.addEventListener("pointerup", (event) => release(event, true));
  svg.addEventListener("pointercancel", (event) => release(event, false));
  svg.addEventListener("pointerleave", () => !drag && actions.look(null));

  svg.addEventListener("keydown", (event) => {
    const id = pointOf(event);
    const far = event.shiftKey ? 5 : 1;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !plot.box) return;
    if (step) {
      if (id !== null) actions.nudge(id, step[0] * far, step[1] * far);
      else moveCursor(step[0] * far, step[1] * far);
    } else if (id !== null && (event.key === "Delete" || event.key === "Backspace")) {
      actions.remove(id);
      actions.settle();
      svg.focus({ preventScroll: true });
    } else if (id !== null && event.key === "Escape") {
      svg.focus({ preventScroll: true });
    } else if (RAISED[event.key] && actions.raise(id, RAISED[event.key] * far)) {
      // Done; where values are no part of the picture's axes only.
    } else if (id === null && (event.key === "Enter" || event.key === " ")) {
      actions.add(cursor ?? actions.middle());
      actions.settle();
      showCursor();
    } else {
      return;
    }
    event.preventDefault();
  });

  svg.addEventListener("focusin", (event) => actions.choose(pointOf(event)));
  svg.addEventListener("focus", () => plot.box && svg.matches(":focus-visible") && showCursor());
  svg.addEventListener("blur", () => hideCursor());

  function showCursor() {
    cursor ??= actions.middle();
    plot.drawHair(cursor, "cursor");
    actions.look(cursor, "cursor");
  }

  function hideCursor() {
    if (cursor) actions.look(null);
    cursor = null;
  }

  function moveCursor(across, up) {
    cursor = actions.stepped(cursor ?? actions.middle(), across, up);
    showCursor();
  }
}
