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
    String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

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

    /** Begin anew. Axes are { domain, label, ticks (values with texts) or count, log }. */
    begin(x, y, margin) {
      this.margin = { ...MARGIN, ...margin };
      const width = Math.max(200, Math.round(this.place.clientWidth));
      const height = this.shape(width);
      if (width !== this.width || height !== this.height) {
        [this.width, this.height] = [width, height];
        this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
        this.svg.setAttribute("width", width);
        this.svg.setAttribute("height", height);
      }
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
      for (const { value, text } of list(y, (this.bottom - this.top) / 45)) {
        const at = this.y(value).toFixed(1);
        this.parts.push(
          `<line class="lab-grid" x1="${this.left}" x2="${this.right}" y1="${at}" y2="${at}"/>`,
          `<text class="lab-tick" text-anchor="end" x="${this.left - 7}" y="${at}" dy="0.32em">${text}</text>`
        );
      }
      for (const { value, text } of list(x, (this.right - this.left) / 65)) {
        const at = this.x(value).toFixed(1);
        this.parts.push(
          `<line class="lab-axis" x1="${at}" x2="${at}" y1="${this.bottom}" y2="${this.bottom + 4}"/>`,
          `<text class="lab-tick" text-anchor="middle" x="${at}" y="${this.bottom + 17}">${text}</text>`
        );
      }
      this.parts.push(
        `<line class="lab-axis" x1="${this.left}" x2="${this.right}" y1="${this.bottom}" y2="${this.bottom}"/>`,
        `<text class="lab-label" text-anchor="end" x="${this.right}" y="${this.bottom + 31}">${escaped(x.label || "")}</text>`,
        `<text class="lab-label" x="${Math.min(this.left, 8)}" y="14">${escaped(y.label || "")}</text>`
      );
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

    clipped(mark) {
      return `<svg x="${this.left}" y="${this.top}" width="${this.right - this.left}" height="${this.bottom - this.top}" viewBox="${this.left} ${this.top} ${this.right - this.left} ${this.bottom - this.top}">${mark}</svg>`;
    }

    curve(xs, ys, kind) {
      this.parts.push(this.clipped(`<path class="lab-curve ${kind}" d="${this.route(xs, ys)}"/>`));
      return this;
    }

    band(xs, low, high, kind) {
      const back = this.route([...xs].reverse(), [...low].reverse()).replace("M", "L");
      this.parts.push(
        this.clipped(`<path class="lab-band ${kind}" d="${this.route(xs, high)}${back}Z"/>`)
      );
      return this;
    }

    rectangle(x0, x1, kind) {
      const [a, b] = [this.x(x0), this.x(x1)];
      this.parts.unshift(
        `<rect class="${kind}" x="${a.toFixed(1)}" width="${Math.max(0, b - a).toFixed(1)}" y="${this.top}" height="${this.bottom - this.top}"/>`
      );
      return this;
    }

    rule(x, kind) {
      const at = this.x(x).toFixed(1);
      this.parts.push(
        `<line class="lab-curve ${kind}" x1="${at}" x2="${at}" y1="${this.top}" y2="${this.bottom}"/>`
      );
      return this;
    }

    dot(x, y, radius, kind) {
      this.parts.push(
        `<circle class="${kind}" cx="${this.x(x).toFixed(1)}" cy="${this.y(y).toFixed(1)}" r="${radius}"/>`
      );
      return this;
    }

    /** A text beside a place in the data; dx and dy are in pixels. */
    note(x, y, text, { kind = "", anchor = "start", dx = 0, dy = 0 } = {}) {
      const px = (this.x(x) + dx).toFixed(1);
      const py = (this.y(y) + dy).toFixed(1);
      this.parts.push(
        `<text class="lab-note ${kind}" text-anchor="${anchor}" x="${px}" y="${py}">${escaped(text)}</text>`
      );
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
