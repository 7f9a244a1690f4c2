// What the interactive page says: its skeleton, a sentence and some numbers, and a program.
var mnngp = mnngp || {};

(function () {
  "use strict";

  const { written } = mnngp;

  const button = (act, text) =>
    `<button type="button" class="lab-button" data-act="${act}">${text}</button>`;
  const figure = (name, caption, rest = "", tools = "") => `
    <figure data-chart="${name}">
      <figcaption>${caption}<span class="lab-tools">${tools}</span></figcaption>${rest}
    </figure>`;
  const FIGURES = [
    figure("moments", "<b>One layer.</b> F(ρ) of this unit; pale: ranks 1, 2, 4, 8, 16"),
    figure("slopes", "<b>Its derivative.</b> How often two argmaxes agree"),
    figure(
      "map",
      "<b>The correlation map,</b> and two inputs on their way",
      `<label class="lab-slider lab-start">
         <span class="lab-name">Correlation of the two inputs</span><span class="lab-value"></span>
         <input type="range" min="-100" max="100" step="1" name="start">
       </label>`
    ),
    figure("layers", "<b>Layer by layer.</b> The same two inputs"),
    figure("phase", "<b>The phase</b>", '<dl class="lab-numbers"></dl>'),
    figure(
      "prior",
      "<b>The prior.</b> Four networks of infinite width",
      "",
      button("draw", "Draw again")
    ),
    figure(
      "posterior",
      '<b>The posterior.</b> <span class="lab-evidence"></span>',
      "",
      [button("add", "Add"), button("remove", "Remove"), button("reset", "Reset")].join(" ")
    ),
  ];
  /** What stands on the page before anything is drawn. */
  mnngp.skeleton = `
    <div class="lab-controls" role="group" aria-label="Settings of the network"></div>
    <p class="lab-says" role="status"></p>
    <div class="lab-panels">${FIGURES.join("")}</div>
    <details class="lab-code">
      <summary>The same in Python</summary>
      <pre><code></code></pre>
    </details>`;

  const SAYINGS = {
    ordered: "gradients vanish, and so do the differences between inputs",
    critical: "activations neither die nor explode",
    chaotic: "activations grow by a factor a layer",
  };

  /** One sentence on where the network is. */
  mnngp.sentence = function (network, fixed, profile, start) {
    const { phase } = fixed;
    const { depth, unit } = network;
    return (
      `<b class="lab-${phase}-text">${phase[0].toUpperCase()}${phase.slice(1)}</b>: ` +
      `${SAYINGS[phase]}. Behind ${depth} ${depth > 1 ? "layers" : "layer"} ` +
      `of ${mnngp.named(unit)}, two inputs with the correlation ${written(start)} ` +
      `have <span class="lab-same">1 − ρ = ${written(profile.distance[depth], 2)}</span>.`
    );
  };

  /** The slopes and the variance of a fixed point, for a list. */
  mnngp.numbers = function (fixed) {
    const rows = [
      ["σ<sub>w</sub>² M", fixed.varianceSlope, "a layer's factor for variances"],
      ["χ₁", fixed.gradientSlope, "for squared gradients"],
      ["slope of the map at 1", fixed.correlationSlope, "for 1 − ρ, deep down"],
      ["v*", fixed.variance, "what variances tend to"],
    ];
    return rows
      .map(
        ([name, value, text]) =>
          `<div><dt>${name}</dt><dd>${written(value)}</dd><dd>${text}</dd></div>`
      )
      .join("");
  };

  /** A program that says the same evidence. */
  mnngp.program = function (state, network) {
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
  };
})();
