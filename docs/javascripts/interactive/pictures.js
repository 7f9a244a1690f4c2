// The pictures of one layer, of depth, of the phase and of the prior. Each is a function that draws
// a view (see page.js) into a chart.
var mnngp = mnngp || {};

(function () {
  "use strict";

  const { written } = mnngp;
  const grid = (low, high, n) =>
    Float64Array.from({ length: n }, (_, i) => low + ((high - low) * i) / (n - 1));
  // Angles at equal steps: both maps are steep near ±1.
  const CORRELATIONS = grid(Math.PI, 0, 101).map(Math.cos);
  const NEIGHBOURS = ["1", "2", "4", "8", "16"];
  const QUARTERS = [-180, -90, 0, 90, 180];

  mnngp.grid = grid;
  mnngp.named = (unit) => (unit.name === "relu" ? "ReLU" : `rank ${unit.name}`);

  /** A function of the correlation, for a unit and, pale, for others. */
  function ofCorrelation(chart, unit, values, y) {
    chart.begin({ domain: [-1, 1], label: "correlation ρ before the layer" }, y, { right: 40 });
    for (const name of NEIGHBOURS) {
      if (name === unit.name) continue;
      const other = mnngp.unit(name);
      chart.curve(
        CORRELATIONS,
        CORRELATIONS.map((rho) => values(other, rho)),
        "lab-pale"
      );
    }
    chart.curve(
      CORRELATIONS,
      CORRELATIONS.map((rho) => values(unit, rho)),
      "lab-first lab-strong"
    );
  }

  mnngp.moments = function (chart, { unit }) {
    const ticks = [-1, 0, 1, 2, 3].map((value) => ({ value, text: written(value) }));
    const y = { domain: [-1, 3.6], label: "F(ρ)", ticks };
    ofCorrelation(chart, unit, (one, rho) => one.moment(rho), y);
    const end = unit.secondMoment;
    for (const [name, text] of [
      ["2", "1, 2"],
      ["4", "4"],
      ["8", "8"],
      ["16", "16"],
    ]) {
      const other = mnngp.unit(name).secondMoment;
      if (Math.abs(other - end) > 0.3)
        chart.note(1, other, text, { dx: 7, dy: 4, kind: "lab-faint" });
    }
    chart.dot(1, end, 4, "lab-dot lab-first");
    chart.note(1, end, written(end), { dx: 7, dy: 4, kind: "lab-first" });
    chart.end(
      `F of ${mnngp.named(unit)} over the correlation: ${written(unit.moment(-1))} at −1, ` +
        `${written(unit.moment(0))} at 0 and ${written(end)} at 1.`
    );
  };

  mnngp.slopes = function (chart, { unit }) {
    const y = {
      domain: [0, 1.05],
      label: "F′(ρ)",
      ticks: [0, 0.25, 0.5, 0.75, 1].map((value) => ({ value, text: value })),
    };
    ofCorrelation(chart, unit, (one, rho) => one.derivative(rho), y);
    const middle = unit.derivative(0);
    for (const name of ["1", "2", "4", "16"]) {
      const other = mnngp.unit(name).derivative(0);
      if (Math.abs(other - middle) < 0.1) continue;
      const dy = name === "1" ? 15 : -7;
      chart.note(0, other, name, { dx: -8, dy, anchor: "end", kind: "lab-faint" });
    }
    chart.dot(0, middle, 4, "lab-dot lab-first");
    const dy = middle > 0.95 ? 17 : -8;
    chart.note(0, middle, written(middle), { dx: -8, dy, anchor: "end", kind: "lab-first" });
    chart.end(
      `The derivative of F of ${mnngp.named(unit)}: ${written(unit.derivative(-1))} at −1, ` +
        `${written(middle)} at 0 and ${written(unit.derivative(1))} at 1.`
    );
  };

  /** c ↦ c′ where the variance has settled, and the way of two inputs through the layers. */
  mnngp.correlationMap = function (chart, { network, fixed, profile }) {
    const label = "correlation before a layer";
    chart.begin({ domain: [-1, 1], label }, { domain: [-1, 1], label: "behind it" });
    chart.curve([-1, 1], [-1, 1], "lab-pale lab-dashed");
    const map = CORRELATIONS.map((c) => 1 - mnngp.distanceMap(network, 1 - c, fixed.variance));
    chart.curve(CORRELATIONS, map, "lab-first lab-strong");
    const way = profile.distance.map((gap) => 1 - gap);
    const xs = [way[0]];
    const ys = [way[0]];
    for (let layer = 1; layer < way.length; layer++) {
      xs.push(way[layer - 1], way[layer]);
      ys.push(way[layer], way[layer]);
    }
    chart.curve(xs, ys, "lab-second");
    for (let layer = 1; layer < way.length; layer++) {
      chart.dot(way[layer - 1], way[layer], 2.5, "lab-dot lab-second");
    }
    chart.dot(way[0], way[0], 4, "lab-ring lab-second");
    // where the map is the diagonal, rank 1 that does not shrink, every correlation stays
    const stays = network.unit.name === "1" && fixed.correlationSlope > 1 - 1e-9;
    if (!stays) chart.dot(1, 1, 5, "lab-ring lab-first");
    const last = profile.distance[profile.distance.length - 1];
    chart.end(
      `The correlation map: its slope at 1 is ${written(fixed.correlationSlope)}. Two inputs begin ` +
        `with ${written(way[0])} and have 1 − ρ = ${written(last)} behind ${network.depth} layers.`
    );
  };

  /** Distance, variance and gradient, layer by layer, on a logarithmic scale. */
  mnngp.layers = function (chart, { network, profile }) {
    const courses = [
      { values: profile.variance, kind: "lab-third", text: "variance" },
      { values: profile.gradient, kind: "lab-fourth", text: "gradient²" },
      { values: profile.distance, kind: "lab-second", text: "1 − ρ" },
    ];
    const logs = courses.map(({ values }) => values.map((v) => (v > 0 ? Math.log10(v) : NaN)));
    const all = logs.flat().filter(Number.isFinite);
    const low = Math.floor(Math.min(-2, ...all));
    const high = Math.ceil(Math.max(1, ...all));
    const layers = profile.variance.map((_, layer) => layer);
    const few = network.depth < 6 ? layers.map((value) => ({ value, text: value })) : undefined;
    chart.begin(
      { domain: [0, network.depth], label: "hidden layer", ticks: few },
      { domain: [low, high], log: true },
      { left: 46, right: 70, top: 14 }
    );
    courses.forEach(({ kind }, index) => {
      // equal inputs have no distance
      if (logs[index].every(Number.isFinite)) chart.curve(layers, logs[index], kind);
    });
    const ends = courses
      .map(({ kind, text }, index) => ({ kind, text, end: logs[index][network.depth] }))
      .filter(({ end }) => Number.isFinite(end))
      .sort((a, b) => b.end - a.end);
    let free = -Infinity; // labels of curves that end at one place stand below each other
    for (const { kind, text, end } of ends) {
      const at = Math.max(chart.y(end) + 4, free);
      chart.note(network.depth, end, text, { dx: 7, dy: at - chart.y(end), kind });
      free = at + 15;
    }
    const last = (values) => written(values[network.depth]);
    chart.end(
      `Behind ${network.depth} layers the variance is ${last(profile.variance)} and 1 − ρ is ` +
        `${last(profile.distance)}; the squared gradient at the first layer is ` +
        `${written(profile.gradient[0])} of that at the last.`
    );
  };

  /** The weight variance between the phases. */
  mnngp.phase = function (chart, { network, fixed }) {
    const unit = network.unit;
    const [low, high] = [Math.log10(0.1), Math.log10(4)];
    const marks = [0.1, 0.2, 0.5, 1, 2, 4].map((value) => ({
      value: Math.log10(value),
      text: value,
    }));
    chart.begin(
      { domain: [low, high], ticks: marks, label: "weight variance" },
      { domain: [0, 1], ticks: [] },
      { left: 14, top: 30 }
    );
    const critical = Math.log10(unit.criticalWeightVar);
    const gradients = Math.log10(1 / unit.slopeAtOne);
    chart.rectangle(low, critical, "lab-ordered").rectangle(critical, high, "lab-chaotic");
    chart.rule(critical, "lab-border");
    if (Math.abs(gradients - critical) > 1e-9) chart.rule(gradients, "lab-border lab-dashed");
    const here = Math.log10(network.weightVar);
    const names = [
      { at: low, text: "ordered", anchor: "start", dx: 10, room: chart.x(critical) - chart.left },
      { at: high, text: "chaotic", anchor: "end", dx: -10, room: chart.right - chart.x(critical) },
    ];
    for (const { at, text, anchor, dx, room } of names) {
      const covered = Math.abs(chart.x(here) - chart.x(at)) < 66;
      if (room > 64 && !covered)
        chart.note(at, 0.5, text, { dx, dy: 4, anchor, kind: "lab-faint" });
    }
    const together = Math.abs(gradients - critical) <= 1e-9;
    const border = written(unit.criticalWeightVar, 4);
    if (together) chart.note(critical, 1, `critical: ${border}`, { dy: -8, anchor: "middle" });
    else {
      chart.note(critical, 1, `1/M = ${border}`, { dx: 3, dy: -8, anchor: "end" });
      chart.note(gradients, 1, "1, for gradients", { dx: -3, dy: -8, kind: "lab-faint" });
    }
    chart.dot(here, 0.5, 7, "lab-dot lab-first lab-here");
    chart.end(
      `The network is ${fixed.phase}: its weight variance is ${written(network.weightVar, 4)}, ` +
        `the critical one ${written(unit.criticalWeightVar, 4)}.`
    );
  };

  /** The axis of the inputs, for the prior and the posterior. */
  mnngp.inputAxis = (inputs) =>
    inputs === "circle"
      ? {
          domain: [-180, 180],
          ticks: QUARTERS.map((value) => ({ value, text: `${value}°`.replace("-", "−") })),
          label: "angle of the input",
        }
      : { domain: [-3, 3], label: "input x" };

  /** Functions drawn from the prior, with two standard deviations. */
  mnngp.prior = function (chart, { axis, places, draws, deviation, network }) {
    const largest = 2.6 * Math.max(...deviation, 1e-300);
    const exponent = Math.floor(Math.log10(largest));
    // on an axis of its own, so that ticks are short
    const shift = Math.abs(exponent) > 2 ? exponent : 0;
    const unit = 10 ** shift;
    chart.begin(axis, {
      domain: [-largest / unit, largest / unit],
      label: shift ? `f(x), in units of ${mnngp.power(shift)}` : "f(x)",
    });
    const band = deviation.map((value) => (2 * value) / unit);
    chart.band(
      places,
      band.map((value) => -value),
      band,
      "lab-first"
    );
    draws.forEach((draw, index) => {
      chart.curve(
        places,
        draw.map((value) => value / unit),
        `lab-draw lab-draw-${index}`
      );
    });
    chart.end(
      `${draws.length} functions drawn from the prior of depth ${network.depth}. ` +
        `The standard deviation is ${written(deviation[deviation.length - 1])} at the right end.`
    );
  };
})();
