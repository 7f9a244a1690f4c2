// The controls of the interactive page: what the reader sets.
var mnngp = mnngp || {};

(function () {
  "use strict";

  const WEIGHT = [0.1, 4]; // weight variances, on a logarithmic scale
  const BIAS = 2; // the largest bias variance; they are on a scale of squares
  const NOISE = [1e-4, 1]; // noise variances, on a logarithmic scale
  const STEPS = 200;

  const rounded = (value) => Number(value.toPrecision(3));
  const logarithmic = ([low, high]) => ({
    max: STEPS,
    value: (position) => rounded(low * (high / low) ** (position / STEPS)),
    position: (value) => (STEPS * Math.log(value / low)) / Math.log(high / low),
  });
  const whole = (max) => ({ min: 1, max, value: Number, position: (value) => value });

  const SLIDERS = [
    { key: "rank", text: "Rank", symbol: "q", scale: whole(16), name: "Rank" },
    { key: "depth", text: "Depth", symbol: "L", scale: whole(50), name: "Depth" },
    {
      key: "weightVar",
      text: "Weights",
      symbol: "σ<sub>w</sub>²",
      scale: logarithmic(WEIGHT),
      name: "Weight variance",
    },
    {
      key: "biasVar",
      text: "Biases",
      symbol: "σ<sub>b</sub>²",
      name: "Bias variance",
      scale: {
        max: STEPS,
        value: (position) => rounded(BIAS * (position / STEPS) ** 2),
        position: (value) => STEPS * Math.sqrt(value / BIAS),
      },
    },
    {
      key: "noiseVar",
      text: "Noise",
      symbol: "σ<sub>ε</sub>²",
      scale: logarithmic(NOISE),
      name: "Noise variance",
    },
  ];
  const CHOICES = [
    { key: "family", text: "Unit", options: { maxout: "Maxout", relu: "ReLU" } },
    { key: "inputs", text: "Inputs", options: { circle: "Circle", line: "Line" } },
    { key: "kind", text: "Kernel", options: { nngp: "NNGP", ntk: "NTK" } },
  ];

  mnngp.unitOf = (state) => mnngp.unit(state.family === "relu" ? "relu" : String(state.rank));

  /** Build them in `place`. `changed(settings)` hears of each change. Returns a function that shows
   *  a state. */
  mnngp.controls = function (place, changed) {
    const inputs = new Map();
    const values = new Map();
    const sliders = document.createElement("div");
    sliders.className = "lab-sliders";
    for (const { key, text, symbol, scale, name } of SLIDERS) {
      const label = document.createElement("label");
      label.className = "lab-slider";
      label.innerHTML =
        `<span class="lab-name" title="${name}">${text} <i>${symbol}</i></span>` +
        `<span class="lab-value"></span><input type="range" step="1" name="${key}">`;
      const input = label.querySelector("input");
      input.min = scale.min || 0;
      input.max = scale.max;
      input.setAttribute("aria-label", name);
      input.addEventListener("input", () => {
        const settings = { [key]: scale.value(Number(input.value)) };
        if (key === "weightVar") settings.critical = false;
        changed(settings);
      });
      inputs.set(key, input);
      values.set(key, label.querySelector(".lab-value"));
      sliders.append(label);
    }

    const choices = document.createElement("div");
    choices.className = "lab-choices";
    const critical = document.createElement("button");
    critical.type = "button";
    critical.className = "lab-button";
    critical.textContent = "Critical";
    critical.title = "Keep the weight variance at 1/M, on the border of the phases";
    critical.addEventListener("click", () =>
      changed({ critical: critical.getAttribute("aria-pressed") !== "true" })
    );
    for (const { key, text, options } of CHOICES) {
      const set = document.createElement("fieldset");
      set.className = "lab-choice";
      set.innerHTML =
        `<legend>${text}</legend>` +
        Object.entries(options)
          .map(
            ([value, name]) =>
              `<label><input type="radio" name="lab-${key}" value="${value}">` +
              `<span>${name}</span></label>`
          )
          .join("");
      set.addEventListener("change", (event) => changed({ [key]: event.target.value }));
      inputs.set(key, set);
      choices.append(set);
    }
    sliders.append(critical);
    place.append(sliders);
    place.after(choices);

    return function show(state) {
      for (const { key, scale } of SLIDERS) {
        const input = inputs.get(key);
        const text = mnngp.written(state[key], 4);
        input.value = Math.round(scale.position(state[key]));
        input.setAttribute("aria-valuetext", text);
        values.get(key).textContent = text;
      }
      inputs.get("rank").disabled = state.family === "relu";
      if (state.family === "relu") values.get("rank").textContent = "–";
      for (const { key } of CHOICES) {
        for (const input of inputs.get(key).querySelectorAll("input")) {
          input.checked = input.value === state[key];
        }
      }
      critical.setAttribute("aria-pressed", String(state.critical));
    };
  };
})();
