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
  const HTML = `
    <div class="lab-controls" role="group" aria-label="Settings of the network"></div>
    <p class="lab-says" role="status"></p>
    <div class="lab-panels">
      <figure data-chart="moments"><figcaption><b>One layer.</b> F(ρ) of this unit; pale: ranks 1, 2, 4, 8, 16</figcaption></figure>
      <figure data-chart="slopes"><figcaption><b>Its derivative.</b> How often two argmaxes agree</figcaption></figure>
      <figure data-chart="map"><figcaption><b>The correlation map,</b> and two inputs on their way</figcaption>
        <label class="lab-slider lab-start"><span class="lab-name">Correlation of the two inputs</span><span class="lab-value"></span>
        <input type="range" min="-100" max="100" step="1" name="start"></label></figure>
      <figure data-chart="layers"><figcaption><b>Layer by layer.</b> The same two inputs</figcaption></figure>
      <figure data-chart="phase" class="lab-wide"><figcaption><b>The phase</b></figcaption>
        <dl class="lab-numbers"></dl></figure>
      <figure data-chart="prior"><figcaption><b>The prior.</b> Four networks of infinite width
        <span class="lab-tools"><button type="button" class="lab-button" data-act="draw">Draw again</button></span></figcaption></figure>
      <figure data-chart="posterior"><figcaption><b>The posterior.</b> <span class="lab-evidence"></span>
        <span class="lab-tools"><button type="button" class="lab-button" data-act="add">Add</button>
        <button type="button" class="lab-button" data-act="remove" disabled>Remove</button>
        <button type="button" class="lab-button" data-act="reset">Reset</button></span></figcaption></figure>
    </div>
    <details class="lab-code"><summary>The same in Python</summary><pre><code></code></pre></details>`;

  /** Places on the axis of the inputs, and those as points. */
  const located = {
    circle: { axis: mnngp.grid(-180, 180, PLACES), points: (z) => mnngp.circle(z.map((v) => v * Math.PI)) },
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
  function between(network, inputs) {
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
  }

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

  /** A program that says the same evidence. */
  function program(state, network) {
    const list = (values) => `[${values.map((v) => Number(v.toPrecision(6))).join(", ")}]`;
    const options = [
      `weight_var=${network.weightVar}`,
      `bias_var=${network.biasVar}`,
      ...(network.kind === "ntk" ? ['kind="ntk"'] : []),
    ].join(", ");
    const relu = state.family === "relu";
    const circle = state.inputs === "circle";
    return [
      "import numpy as np",
      `from mnngp import ${relu ? "NetworkKernel, ReLU" : "MaxoutKernel"}`,
      "from mnngp.inference import Posterior",
      "",
      relu
        ? `kernel = NetworkKernel([ReLU()] * ${network.depth}, ${options})`
        : `kernel = MaxoutKernel(depth=${network.depth}, rank=${state.rank}, ${options})`,
      ...(circle
        ? [
            `angle = np.radians(${list(state.points.map(([z]) => z * 180))})`,
            "X = np.sqrt(2) * np.column_stack([np.cos(angle), np.sin(angle)])",
          ]
        : [`X = np.array(${list(state.points.map(([z]) => z * 3))})[:, None]`]),
      `y = ${list(state.points.map(([, value]) => value))}`,
      `signal = 1 / kernel.diag([[${circle ? "1.0, 1.0" : "1.0"}]])[0]`,
      `posterior = Posterior(kernel, X, y, noise_var=${state.noiseVar}, signal_var=signal)`,
      "print(posterior.log_marginal_likelihood())",
    ].join("\n");
  }

  const SAYINGS = {
    ordered: "gradients vanish, and so do the differences between inputs",
    critical: "activations neither die nor explode",
    chaotic: "activations grow by a factor a layer",
  };

  function numbers(network, fixed) {
    const rows = [
      ["σ<sub>w</sub>² M", fixed.varianceSlope, "a layer's factor for variances"],
      ["χ₁", fixed.gradientSlope, "for squared gradients"],
      ["slope of the map at 1", fixed.correlationSlope, "for 1 − ρ, deep down"],
      ["v*", fixed.variance, "what variances tend to"],
    ];
    return rows
      .map(([name, value, text]) => `<div><dt>${name}</dt><dd>${written(value)}</dd><dd>${text}</dd></div>`)
      .join("");
  }

  function begin(lab) {
    lab.innerHTML = HTML;
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
    for (const figure of lab.querySelectorAll("[data-chart]")) {
      const name = figure.dataset.chart;
      const place = document.createElement("div");
      figure.querySelector("figcaption").after(place);
      charts[name] = new mnngp.Chart(place, shapes[name]);
      charts[name].svg.setAttribute("role", name === "posterior" ? "group" : "img");
    }
    charts.posterior.svg.classList.add("lab-plane");

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
    const observations = new mnngp.Observations(charts.posterior, lab, (points) => changed({ points }));
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
      saying = setTimeout(() => (find(".lab-says").innerHTML = text), find(".lab-says").innerHTML ? 150 : 0);
    }

    function render() {
      const network = networkOf(state);
      const { inputs } = state;
      const fixed = mnngp.fixedPoint(network);
      const profile = mnngp.depthProfile(network, state.start);
      const key = [network.unit.name, network.depth, network.weightVar, network.biasVar, network.kind, inputs];
      const z = once("z", [state.seed], () =>
        Array.from({ length: DRAWS }, (_, k) => mnngp.gaussians(1000 * state.seed + k, PLACES))
      );
      const prior = once("prior", [key, state.seed], () => {
        const { u, deviation } = between(network, inputs);
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
      mnngp.moments(charts.moments, network);
      mnngp.slopes(charts.slopes, network);
      mnngp.correlationMap(charts.map, { network, fixed, profile });
      mnngp.layers(charts.layers, { network, profile });
      mnngp.phase(charts.phase, { network, fixed });
      mnngp.prior(charts.prior, { axis, places, network, ...prior });
      observations.draw({ axis, places, posterior, points, inputs });
      find(".lab-numbers").innerHTML = numbers(network, fixed);
      find(".lab-evidence").textContent =
        posterior && points.length ? `Log evidence ${written(posterior.logEvidence, 4)}` : "";
      find(".lab-code code").textContent = program(state, network);
      const gap = written(profile.distance[network.depth], 2);
      say(
        `<b class="lab-${fixed.phase}-text">${fixed.phase[0].toUpperCase()}${fixed.phase.slice(1)}</b>: ` +
          `${SAYINGS[fixed.phase]}. Behind ${network.depth} ${network.depth > 1 ? "layers" : "layer"} ` +
          `of ${network.unit.name === "relu" ? "ReLU" : `rank ${state.rank}`}, two inputs with the ` +
          `correlation ${written(state.start)} have <span class="lab-same">1 − ρ = ${gap}</span>.`
      );
    }

    for (const button of document.querySelectorAll("[data-lab]")) {
      button.addEventListener("click", () => {
        const { share, ...settings } = JSON.parse(button.dataset.lab);
        const next = { ...START, points: state.points, seed: state.seed, ...settings };
        if (share) {
          next.critical = false;
          next.weightVar = Number((share * mnngp.unitOf(next).criticalWeightVar).toPrecision(3));
        }
        changed(next);
        const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
        const goal = find(`[data-chart=${button.dataset.show || "map"}]`);
        goal.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "center" });
      });
    }

    draw();
    let width = lab.clientWidth;
    new ResizeObserver(() => {
      if (lab.clientWidth === width) return;
      width = lab.clientWidth;
      changed({});
    }).observe(lab);
    document.documentElement.dataset.ready = "yes";
  }

  const lab = document.getElementById("lab");
  if (lab) begin(lab);
})();
