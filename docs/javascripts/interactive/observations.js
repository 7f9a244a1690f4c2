// The posterior, and its points, which the reader drags, adds and removes: by mouse, finger or
// keys.
var mnngp = mnngp || {};

(function () {
  "use strict";

  const { written } = mnngp;
  const MOST = 16;
  const VALUES = [-3, 3];
  const STEP = 0.02; // of an axis, for a key
  const TAP = 6; // pixels that a finger may move in a tap

  const within = (value, [low, high]) => Math.min(high, Math.max(low, value));

  class Observations {
    /** `changed(points)` hears of each change; points are [place in -1 … 1, value]. */
    constructor(chart, tools, changed) {
      this.chart = chart;
      this.changed = changed;
      this.points = [];
      this.selected = -1;
      this.added = -Infinity;
      this.remove = tools.querySelector("[data-act=remove]");
      this.remove.addEventListener("click", () => this.drop(this.selected));
      tools.querySelector("[data-act=add]").addEventListener("click", () => this.addSomewhere());
      const svg = chart.svg;
      svg.addEventListener("pointerdown", (event) => this.down(event));
      svg.addEventListener("pointermove", (event) => this.move(event));
      svg.addEventListener("pointerup", (event) => this.up(event));
      svg.addEventListener("pointercancel", () => (this.held = undefined));
      svg.addEventListener("keydown", (event) => this.key(event));
      svg.addEventListener("dblclick", (event) => {
        // The event's own target is the chart, which holds the pointer. The second click of two may
        // fall on a point that the first has made.
        if (event.timeStamp - this.added > 600) this.drop(this.pressed);
      });
      // a finger on a point moves it, not the page
      const hold = (event) => this.index(event.target) >= 0 && event.preventDefault();
      svg.addEventListener("touchstart", hold, { passive: false });
    }

    index(target) {
      const handle = target.closest("[data-point]");
      return handle ? Number(handle.dataset.point) : -1;
    }

    /** A point under the pointer, in the units of the points. */
    under(event) {
      const { x, y } = this.chart.at(event);
      return [within(x / this.chart.xDomain[1], [-1, 1]), within(y, VALUES)];
    }

    down(event) {
      const index = this.index(event.target);
      this.pressed = index;
      this.held = { index, x: event.clientX, y: event.clientY, moved: false };
      if (index < 0) return;
      this.select(index);
      this.chart.svg.setPointerCapture(event.pointerId);
      // Safari gives no focus to an element of SVG by itself
      this.chart.handles.children[index].focus({ preventScroll: true });
      event.preventDefault();
    }

    move(event) {
      if (!this.held) return;
      const way = Math.hypot(event.clientX - this.held.x, event.clientY - this.held.y);
      if (way > TAP) this.held.moved = true;
      if (this.held.index < 0 || !this.held.moved) return;
      this.put(this.held.index, this.under(event));
    }

    up(event) {
      const held = this.held;
      this.held = undefined;
      if (!held || held.index >= 0 || held.moved) return;
      const { left, right, top, bottom, svg } = this.chart;
      const box = svg.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      if (x < left || x > right || y < top || y > bottom) return;
      this.added = event.timeStamp;
      this.add(this.under(event));
    }

    key(event) {
      const index = this.index(event.target);
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      if (index < 0) return;
      if (event.key === "Delete" || event.key === "Backspace") this.drop(index);
      else if (moves[event.key]) {
        const size = event.shiftKey ? 5 * STEP : STEP;
        const [x, y] = this.points[index];
        const [dx, dy] = moves[event.key];
        this.put(index, [
          within(x + dx * size, [-1, 1]),
          within(y + dy * size * VALUES[1], VALUES),
        ]);
      } else return;
      event.preventDefault();
    }

    put(index, point) {
      this.set(this.points.map((one, k) => (k === index ? point : one)));
    }

    /** At once: the next key may come before the next picture. */
    set(points) {
      this.points = points;
      this.changed(points);
    }

    add(point) {
      if (this.points.length >= MOST) return;
      this.selected = this.points.length;
      this.set([...this.points, point]);
    }

    /** In the middle of the widest gap, on the mean. */
    addSomewhere() {
      const places = [-1, ...this.points.map(([x]) => x), 1].sort((a, b) => a - b);
      let widest = 0;
      for (let k = 1; k + 1 < places.length; k++) {
        if (places[k + 1] - places[k] > places[widest + 1] - places[widest]) widest = k;
      }
      this.add([(places[widest] + places[widest + 1]) / 2, 0]);
    }

    drop(index) {
      if (index < 0) return;
      this.selected = -1;
      this.set(this.points.filter((_, k) => k !== index));
    }

    select(index) {
      this.selected = index;
      this.mark();
    }

    mark() {
      this.remove.disabled = this.selected < 0;
      [...this.chart.handles.children].forEach((handle, k) =>
        handle.classList.toggle("lab-selected", k === this.selected)
      );
    }

    /** Draw mean and band, and put the handles where the points are. */
    draw({ axis, places, posterior, points, inputs }) {
      const { chart } = this;
      this.points = points;
      if (this.selected >= points.length) this.selected = -1;
      chart.begin(axis, { domain: VALUES, label: "f(x)" });
      if (posterior) {
        const { mean, variance } = posterior;
        const half = variance.map((value) => 1.96 * Math.sqrt(value));
        chart.band(
          places,
          mean.map((m, k) => m - half[k]),
          mean.map((m, k) => m + half[k]),
          "lab-first"
        );
        chart.curve(places, mean, "lab-first lab-strong");
      }
      chart.end(`The posterior of ${points.length} points: its mean, and a band of 95 %.`);
      this.handle(points, axis, inputs);
      this.mark();
    }

    handle(points, axis, inputs) {
      const group = this.chart.handles;
      while (group.children.length > points.length) group.lastChild.remove();
      while (group.children.length < points.length) {
        const one = document.createElementNS("http://www.w3.org/2000/svg", "g");
        one.setAttribute("class", "lab-point");
        one.setAttribute("tabindex", "0");
        one.setAttribute("role", "button");
        one.innerHTML = '<circle class="lab-reach" r="18"/><circle class="lab-mark" r="5.5"/>';
        one.dataset.point = group.children.length;
        group.append(one);
      }
      const end = axis.domain[1];
      points.forEach(([x, y], k) => {
        const handle = group.children[k];
        const [px, py] = [this.chart.x(x * end), this.chart.y(y)];
        handle.setAttribute("transform", `translate(${px.toFixed(1)} ${py.toFixed(1)})`);
        const where = inputs === "circle" ? `${written(Math.round(x * end))}°` : written(x * end);
        handle.setAttribute(
          "aria-label",
          `Point ${k + 1} at ${where}, value ${written(Number(y.toFixed(2)))}. ` +
            "Arrow keys move it, Delete removes it."
        );
      });
    }
  }

  mnngp.Observations = Observations;
})();
