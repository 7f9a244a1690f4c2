// The interactive page: its state, and who draws what of it.
var mnngp = mnngp || {};

(function () {
  "use strict";

  const { written } = mnngp;
  const DRAWS = 4;
  const PLACES = 121;
  const POINTS = [
    [-0.78, -0.9],
    [-0.6, -0.2],
    [-0.38, 1.1],
    [-0.2, 0.7],
    [0.12, -0.5],
    [0.3, -0.2],
    [0.68, 1.4],
  ];
  const START = {
    family: "maxout",
    rank: 3,
    depth: 3,
    weightVar: 1,
    critical: true,
    biasVar: 0.05,
    noiseVar: 0.02,
    kind: "nngp",
    inputs: "circle",
    start: -0.5,
    seed: 1,
    points: POINTS,
  };

  /** Places on the axis of the inputs, and those as points. */
  const located = {
    circle: {
      axis: mnngp.grid(-180, 180, PLACES),
      points: (z) => mnngp.circle(z.map((v) => v * Math.PI)),
    },
    line: { axis: mnngp.grid(-3, 3, PLACES), points: (z) => mnngp.line(z.map((v) => v * 3)) },
  };
  const WHOLE = Array.from(mnngp.grid(-1, 1, PLACES));

  // Pairs of places of a line: those of (-x, -y) are those of (x, y).
  const HALF = (() => {
    const { first, second } = mnngp.pairs(PLACES);
    const chosen = Array.from(first.keys()).filter((k) => first[k] + second[k] < PLACES);
    return {
      first: Int32Array.from(chosen, (k) => first[k]),
      second: Int32Array.from(chosen, (k) => second[k]),
    };
  })();

  /** Distances of all places, and their deviations. Those of a circle are one row, turned. */
  mnngp.between = function (network, inputs) {
    const points = located[inputs].points(WHOLE);
    if (inputs === "line") {
      const { u, deviation } = mnngp.distances(network, points, HALF.first, HALF.second);
      const rows = WHOLE.map(() => new Float64Array(PLACES));
      u.forEach((value, k) => {
        const [i, j] = [HALF.first[k], HALF.second[k]];
        const [back, there] = [PLACES - 1 - i, PLACES - 1 - j];
        rows[i][j] = rows[j][i] = rows[back][there] = rows[there][back] = value;
      });
      return { u: rows, deviation };
    }
    const second = Int32Array.from(WHOLE, (_, j) => j);
    const { u, deviation } = mnngp.distances(network, points, new Int32Array(PLACES), second);
    u[0] = u[PLACES - 1] = 0; // both ends are one place
    const rows = WHOLE.map((_, i) => Float64Array.from(WHOLE, (_, j) => u[Math.abs(i - j)]));
    return { u: rows, deviation };
  };

  function networkOf(state) {
    const unit = mnngp.unitOf(state);
    const weightVar = state.critical ? unit.criticalWeightVar : state.weightVar;
    return { unit, depth: state.depth, weightVar, biasVar: state.biasVar, kind: state.kind };
  }

  /** What the kernel is multiplied by for the posterior: |x|²/d = 1 then has variance one. */
  function signalVar(network) {
    const { deviation } = mnngp.distances(network, mnngp.circle([0]), [], []);
    return 1 / deviation[0] ** 2;
  }

  function begin(lab) {
    lab.innerHTML = mnngp.skeleton;
    const find = (selector) => lab.querySelector(selector);
    const state = { ...START };
    const charts = {};
    const wide = (width) => (width > 560 ? 0.3 * width + 80 : 0.72 * width);
    const shapes = {
      moments: (width) => Math.round(Math.min(270, 0.66 * width)),
      slopes: (width) => Math.round(Math.min(270, 0.66 * width)),
      map: (width) => Math.round(Math.min(380, 0.86 * width)),
      layers: (width) => Math.round(Math.min(440, 0.86 * width + 56)),
      phase: () => 104,
      prior: (width) => Math.round(Math.min(340, wide(width))),
      posterior: (width) => Math.round(Math.min(340, wide(width))),
    };
    for (const one of lab.querySelectorAll("[data-chart]")) {
      const name = one.dataset.chart;
      const place = document.createElement("div");
      one.querySelector("figcaption").after(place);
      charts[name] = new mnngp.Chart(place, shapes[name]);
      charts[name].svg.setAttribute("role", name === "posterior" ? "group" : "img");
    }
    charts.posterior.svg.classList.add("lab-plane");

    let widths = "";
    let waiting = 0;
    const draw = () => {
      waiting = 0;
      const before = performance.now();
      render();
      lab.dataset.milliseconds = (performance.now() - before).toFixed(1);
    };
    const changed = (settings) => {
      const next = { ...state, ...settings };
      // from where the border was, once it is left
      if (state.critical && !next.critical && !("weightVar" in settings)) {
        next.weightVar = networkOf(state).weightVar;
      }
      Object.assign(state, next);
      if (!waiting) waiting = requestAnimationFrame(draw);
    };

    const show = mnngp.controls(find(".lab-controls"), changed);
    const observations = new mnngp.Observations(charts.posterior, lab, (points) =>
      changed({ points })
    );
    const start = find("[name=start]");
    start.addEventListener("input", () => changed({ start: start.value / 100 }));
    find("[data-act=draw]").addEventListener("click", () => changed({ seed: state.seed + 1 }));
    find("[data-act=reset]").addEventListener("click", () => changed({ points: POINTS }));

    const kept = {};
    /** A result that is computed again only if what it depends on has changed. */
    const once = (name, dependencies, compute) => {
      const key = JSON.stringify(dependencies);
      if (!kept[name] || kept[name].key !== key) kept[name] = { key, value: compute() };
      return kept[name].value;
    };

    let saying = 0;
    function say(text) {
      // a screen reader hears of where a slider has stopped, not of each step
      clearTimeout(saying);
      saying = setTimeout(
        () => (find(".lab-says").innerHTML = text),
        find(".lab-says").innerHTML ? 150 : 0
      );
    }

    function render() {
      const network = networkOf(state);
      const { inputs } = state;
      const fixed = mnngp.fixedPoint(network);
      const profile = mnngp.depthProfile(network, state.start);
      const key = [
        network.unit.name,
        network.depth,
        network.weightVar,
        network.biasVar,
        network.kind,
        inputs,
      ];
      const z = once("z", [state.seed], () =>
        Array.from({ length: DRAWS }, (_, k) => mnngp.gaussians(1000 * state.seed + k, PLACES))
      );
      const prior = once("prior", [key, state.seed], () => {
        const { u, deviation } = mnngp.between(network, inputs);
        return { deviation, draws: z.map(mnngp.sampler(u, deviation)) };
      });
      const { points, noiseVar } = state;
      const posterior = once("posterior", [key, points, noiseVar], () => {
        const { points: locate } = located[inputs];
        const data = locate(points.map(([place]) => place));
        const targets = points.map(([, value]) => value);
        return mnngp.posterior(network, data, targets, locate(WHOLE), noiseVar, signalVar(network));
      });
      const axis = mnngp.inputAxis(inputs);
      const places = located[inputs].axis;

      show({ ...state, weightVar: network.weightVar });
      start.value = Math.round(100 * state.start);
      start.setAttribute("aria-valuetext", written(state.start));
      start.closest("label").querySelector(".lab-value").textContent = written(state.start);
      once("layer", [network.unit.name, widths], () => {
        mnngp.moments(charts.moments, network);
        mnngp.slopes(charts.slopes, network);
      });
      mnngp.correlationMap(charts.map, { network, fixed, profile });
      mnngp.layers(charts.layers, { network, profile });
      mnngp.phase(charts.phase, { network, fixed });
      mnngp.prior(charts.prior, { axis, places, network, ...prior });
      observations.draw({ axis, places, posterior, points, inputs });
      find(".lab-numbers").innerHTML = mnngp.numbers(fixed);
      find(".lab-evidence").textContent =
        posterior && points.length ? `Log evidence ${written(posterior.logEvidence, 4)}` : "";
      find(".lab-code code").textContent = mnngp.program(state, network);
      say(mnngp.sentence(network, fixed, profile, state.start));
    }

    for (const example of document.querySelectorAll("[data-lab]")) {
      example.addEventListener("click", () => {
        const { share, ...settings } = JSON.parse(example.dataset.lab);
        const next = { ...START, points: state.points, seed: state.seed, ...settings };
        if (share) {
          next.critical = false;
          next.weightVar = Number((share * mnngp.unitOf(next).criticalWeightVar).toPrecision(3));
        }
        changed(next);
        const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
        const goal = find(`[data-chart=${example.dataset.show || "map"}]`);
        goal.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "center" });
      });
    }

    const places = Object.values(charts).map((chart) => chart.place);
    const measure = () => {
      const all = places.map((place) => place.clientWidth);
      const now = all.join(" ");
      // a page that is hidden, or printed, may have no width for a moment
      if (now === widths || (widths && Math.min(...all) < 100)) return;
      widths = now;
      Object.values(charts).forEach((chart) => chart.measure());
      changed({});
    };
    measure();
    draw();
    // also when the style sheet comes after the scripts
    const observer = new ResizeObserver(measure);
    places.forEach((place) => observer.observe(place));
    document.documentElement.dataset.ready = "yes";
  }

  const lab = document.getElementById("lab");
  if (lab) begin(lab);
})();
