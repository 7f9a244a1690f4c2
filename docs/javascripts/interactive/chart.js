// Charts as SVG: two axes, and marks in the units of the data. Drawn at the size of their place, so
// that letters and lines have the size of the page's, and in the colours of its style sheet.
var mnngp = mnngp || {};

(function () {
  "use strict";

  const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const MARGIN = { top: 26, right: 14, bottom: 34, left: 40 };

  const superscript = (n) =>
    (n < 0 ? "⁻" : "") + [...String(Math.abs(n))].map((digit) => SUPERSCRIPTS[digit]).join("");

  mnngp.power = (n) => (n === 0 ? "1" : n === 1 ? "10" : `10${superscript(n)}`);

  /** A number as people write it, with some significant digits. */
  mnngp.written = function (value, digits = 3) {
    if (value === Infinity) return "∞";
    if (value === 0 || !Number.isFinite(value)) return String(value);
    const size = Math.abs(value);
    if (size >= 1e-3 && size < 1e4) {
      return String(Number(value.toPrecision(digits))).replace("-", "−");
    }
    const [mantissa, exponent] = value.toExponential(Math.max(0, digits - 2)).split("e");
    return `${mantissa.replace("-", "−")} · 10${superscript(Number(exponent))}`;
  };

  /** Round numbers between low and high, about `count` of them. */
  function ticks(low, high, count) {
    const raw = (high - low) / count;
    const ten = 10 ** Math.floor(Math.log10(raw));
    const step = ten * [1, 2, 5, 10].find((round) => round * ten >= raw * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
      found.push(k * step);
    }
    return found.map((value) => ({ value, text: mnngp.written(Number(value.toPrecision(6))) }));
  }

  /** Powers of ten, of exponents that are round numbers. */
  const decades = (low, high, count) =>
    ticks(low, high, Math.min(count, Math.max(1, high - low)))
      .filter(({ value }) => Number.isInteger(value))
      .map(({ value }) => ({ value, text: mnngp.power(value) }));

  const escaped = (text) =>
    String(text).replace(
      /[&<>"]/g,
      (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]
    );

  /** An element of SVG, as text. Numbers are pixels. */
  function element(name, attributes, content = "") {
    let text = `<${name}`;
    for (const [key, value] of Object.entries(attributes)) {
      text += ` ${key}="${typeof value === "number" ? Math.round(10 * value) / 10 : value}"`;
    }
    return `${text}>${content}</${name}>`;
  }

  class Chart {
    /** `shape` is the height for a width. */
    constructor(place, shape) {
      this.place = place;
      this.shape = shape;
      this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      this.svg.setAttribute("class", "lab-chart");
      this.svg.innerHTML = "<g></g><g></g>";
      [this.drawing, this.handles] = this.svg.children;
      place.append(this.svg);
      this.margin = MARGIN;
    }

    /** Take the size of its place. Not while drawing: the page would be laid out for each chart. */
    measure() {
      this.width = Math.max(200, Math.round(this.place.clientWidth));
      this.height = this.shape(this.width);
    }

    /** Begin anew. Axes are { domain, label, ticks (values with texts), log }. */
    begin(x, y, margin) {
      const { width, height } = this;
      this.margin = { ...MARGIN, ...margin };
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.svg.setAttribute("width", width);
      this.svg.setAttribute("height", height);
      this.left = this.margin.left;
      this.right = width - this.margin.right;
      this.top = this.margin.top;
      this.bottom = height - this.margin.bottom;
      this.xDomain = x.domain;
      this.yDomain = y.domain;
      this.parts = [];
      this.axis(x, y);
      return this;
    }

    x(value) {
      const [low, high] = this.xDomain;
      return this.left + ((value - low) / (high - low)) * (this.right - this.left);
    }

    y(value) {
      const [low, high] = this.yDomain;
      return this.bottom - ((value - low) / (high - low)) * (this.bottom - this.top);
    }

    /** The data under a point of the screen. */
    at(event) {
      const box = this.svg.getBoundingClientRect();
      const [x0, x1] = this.xDomain;
      const [y0, y1] = this.yDomain;
      const across = (event.clientX - box.left - this.left) / (this.right - this.left);
      const up = (this.bottom - (event.clientY - box.top)) / (this.bottom - this.top);
      return { x: x0 + across * (x1 - x0), y: y0 + up * (y1 - y0) };
    }

    axis(x, y) {
      const list = (axis, size) =>
        axis.ticks || (axis.log ? decades : ticks)(...axis.domain, Math.max(2, Math.floor(size)));
      const { left, right, bottom } = this;
      for (const { value, text } of list(y, (bottom - this.top) / 45)) {
        const at = this.y(value);
        this.line("lab-grid", left, right, at, at);
        this.text(text, left - 7, at + 4, "lab-tick", "end");
      }
      for (const { value, text } of list(x, (right - left) / 65)) {
        const at = this.x(value);
        this.line("lab-axis", at, at, bottom, bottom + 4);
        this.text(text, at, bottom + 17, "lab-tick", "middle");
      }
      this.line("lab-axis", left, right, bottom, bottom);
      this.text(x.label || "", right, bottom + 31, "lab-label", "end");
      this.text(y.label || "", Math.min(left, 8), 14, "lab-label", "start");
    }

    line(kind, x1, x2, y1, y2) {
      this.parts.push(element("line", { class: kind, x1, x2, y1, y2 }));
      return this;
    }

    text(content, x, y, kind, anchor) {
      const attributes = { class: kind, x, y, "text-anchor": anchor };
      this.parts.push(element("text", attributes, escaped(content)));
    }

    /** Where curves would leave the chart they end. */
    route(xs, ys) {
      const far = 2 * this.height;
      let d = "";
      for (let k = 0; k < xs.length; k++) {
        const at = Math.min(far, Math.max(-this.height, this.y(ys[k])));
        d += `${k ? "L" : "M"}${this.x(xs[k]).toFixed(1)} ${at.toFixed(1)}`;
      }
      return d;
    }

    clipped(kind, d) {
      const [x, y, width, height] = [
        this.left,
        this.top,
        this.right - this.left,
        this.bottom - this.top,
      ];
      const viewBox = [x, y, width, height].join(" ");
      const path = element("path", { class: kind, d });
      this.parts.push(element("svg", { x, y, width, height, viewBox }, path));
      return this;
    }

    curve(xs, ys, kind) {
      return this.clipped(`lab-curve ${kind}`, this.route(xs, ys));
    }

    band(xs, low, high, kind) {
      const back = this.route([...xs].reverse(), [...low].reverse()).replace("M", "L");
      return this.clipped(`lab-band ${kind}`, `${this.route(xs, high)}${back}Z`);
    }

    /** Behind all else. */
    rectangle(x0, x1, kind) {
      const [x, y] = [this.x(x0), this.top];
      const [width, height] = [Math.max(0, this.x(x1) - x), this.bottom - y];
      this.parts.unshift(element("rect", { class: kind, x, y, width, height }));
      return this;
    }

    rule(x, kind) {
      return this.line(`lab-curve ${kind}`, this.x(x), this.x(x), this.top, this.bottom);
    }

    dot(x, y, r, kind) {
      this.parts.push(element("circle", { class: kind, cx: this.x(x), cy: this.y(y), r }));
      return this;
    }

    /** A text beside a place in the data; dx and dy are in pixels. */
    note(x, y, content, { kind = "", anchor = "start", dx = 0, dy = 0 } = {}) {
      this.text(content, this.x(x) + dx, this.y(y) + dy, `lab-note ${kind}`, anchor);
      return this;
    }

    /** Show it, with a text for those who do not see it. */
    end(description) {
      this.drawing.innerHTML = this.parts.join("");
      this.svg.setAttribute("aria-label", description);
    }
  }

  mnngp.Chart = Chart;
})();
