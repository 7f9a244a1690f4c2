// Draws the figures: as many panels side by side as the width allows, in the page's colours, and to be read with the keyboard too.
"use strict";
(() => {
  const drawings = JSON.parse(document.getElementById("drawings").textContent);
  const root = document.documentElement;
  const spoken = document.getElementById("spoken");
  const chosen = {}; // which of a place's figures is shown, and from which accuracy on its colours begin
  root.classList.add("drawn");

  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  function template(heat) {
    const axis = {
      gridcolor: colour("--rule"), linecolor: colour("--line"), tickcolor: colour("--line"), showline: true, zeroline: false,
      ticks: "outside", ticklen: 4, title: heat ? {} : { standoff: 6 }, fixedrange: matchMedia("(pointer: coarse)").matches,
    };
    return {
      layout: {
        font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--soft") },
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", xaxis: axis, yaxis: axis,
        annotationdefaults: { font: { size: 13, color: colour("--ink") } },
        hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), align: "left", font: { color: colour("--ink"), size: 13 } },
        modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--line"), activecolor: colour("--accent") },
        legend: { font: { color: colour("--ink") } },
      },
    };
  }

  // The layout for a width: fewer columns where it is narrow, a fixed height for each panel.
  function arranged(figure, available, upper) {
    const layout = structuredClone(figure.layout), { panels, columns: wanted, least, most, height, share } = layout.meta;
    const columns = Math.ceil(wanted / Math.ceil(wanted / Math.max(1, Math.floor(available / least))));
    const width = Math.min(available, columns * most);
    const rows = Math.ceil(panels / columns);
    const heat = "coloraxis" in layout;
    const margin = { l: heat ? 46 : 62, r: 10, t: 26, b: 46 };
    const stacked = columns === 1 && !heat; // the axis below is a screen away: each panel shows its own numbers
    const gap = { x: share ? 16 : 58, y: !share ? 76 : stacked ? 54 : 34 };
    const names = figure.data.filter((trace) => trace.showlegend !== false && trace.type !== "heatmap").map((trace) => trace.name);
    const legendRows = names.length > 1 ? Math.ceil(names.reduce((sum, name) => sum + 52 + 6.6 * name.length, 0) / (width - 20)) : 0;
    const above = heat ? 50 : 22 * legendRows + (legendRows ? 10 : 0); // the legend, or the colour scale: seen before the panels
    const inner = { x: width - margin.l - margin.r, y: rows * height + (rows - 1) * gap.y };
    layout.grid = {
      ...layout.grid, rows, columns,
      xgap: gap.x * columns / (inner.x + gap.x), ygap: gap.y * rows / (inner.y + gap.y),
    };
    Object.assign(layout, {
      width, height: inner.y + margin.t + margin.b + above, margin: { ...margin, t: margin.t + above }, template: template(heat),
      showlegend: legendRows > 0, dragmode: heat || matchMedia("(pointer: coarse)").matches ? false : "zoom",
      hovermode: "closest",
    });
    layout.legend = { orientation: "h", x: 0, xanchor: "left", y: 1 + margin.t / inner.y, yanchor: "bottom", itemsizing: "trace" };
    for (let panel = 0; panel < panels; panel++) {
      const number = panel ? panel + 1 : "";
      const x = layout["xaxis" + number], y = layout["yaxis" + number];
      if (heat) { x.fixedrange = y.fixedrange = true; }
      if (share && panel % columns) { y.title = { text: "" }; y.showticklabels = false; }
      if (share && panel + columns < panels) { x.title = { text: "" }; x.showticklabels = stacked; }
    }
    if (heat) {
      if (upper) layout.coloraxis.cmin = layout.meta.upper;
      layout.coloraxis.colorbar = {
        ...layout.coloraxis.colorbar, orientation: "h", thickness: 10, len: Math.min(1, 360 / inner.x), x: 0, xanchor: "left",
        xpad: 0, y: 1 + margin.t / inner.y, yanchor: "bottom", ypad: 0, outlinewidth: 0, ticks: "outside", ticklen: 3, tickcolor: colour("--line"),
      };
      layout.coloraxis.colorbar.title = { text: layout.coloraxis.colorbar.title.text, side: "top" };
    }
    return layout;
  }

  const config = { displaylogo: false, displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false, modeBarButtons: [["toImage", "resetScale2d"]], showTips: false };

  function draw(id) {
    const place = document.getElementById(id), state = (chosen[id] ??= { index: 0, upper: false });
    const figure = drawings[id][state.index][1];
    state.point = null;
    return Plotly.react(place, figure.data, arranged(figure, root.classList.contains("print") ? Math.min(place.clientWidth, 700) : place.clientWidth, state.upper), { ...config, toImageButtonOptions: { filename: id, scale: 2 } });
  }

  const places = Object.keys(drawings).filter((id) => document.getElementById(id));
  const drawAll = () => Promise.all(places.map(draw));

  // Arrow keys: along a line and from line to line, or over a heat map's cells; Page Up and Page Down: to another panel.
  function step(place, key) {
    const state = chosen[place.id], traces = place._fullData.filter((trace) => trace.hoverinfo !== "skip" && trace.visible === true);
    const heat = traces[0]?.type === "heatmap";
    if (key === "Escape" || !traces.length) { state.point = null; Plotly.Fx.unhover(place); return; }
    const at = (state.point ??= { trace: 0, column: -1, row: 0 });
    const size = () => (heat ? traces[at.trace].z[0].length : traces[at.trace].x.length);
    if (key === "ArrowRight") at.column += 1;
    if (key === "ArrowLeft") at.column -= 1;
    if (heat && key === "ArrowUp") at.row += 1;
    if (heat && key === "ArrowDown") at.row -= 1;
    const other = heat ? { PageDown: 1, PageUp: -1 } : { ArrowDown: 1, ArrowUp: -1, PageDown: 1, PageUp: -1 };
    at.trace = (at.trace + (other[key] ?? 0) + traces.length) % traces.length;
    at.column = Math.min(Math.max(at.column, 0), size() - 1);
    at.row = heat ? Math.min(Math.max(at.row, 0), traces[at.trace].z.length - 1) : 0;
    const trace = traces[at.trace], point = heat ? { xval: at.column, yval: at.row } : { pointNumber: at.column };
    Plotly.Fx.hover(place, [{ curveNumber: trace.index, ...point }], trace.xaxis + trace.yaxis);
    setTimeout(() => { // Plotly waits a little before it shows anything
      spoken.textContent = [...place.querySelectorAll(".hoverlayer .line")].map((line) => line.textContent.replaceAll("\u200b", "")).join(", ");
    }, 100);
  }

  const keys = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Escape"];
  for (const id of places) {
    const place = document.getElementById(id);
    place.addEventListener("keydown", (event) => {
      if (!keys.includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      step(place, event.key);
    });
    place.addEventListener("blur", () => { chosen[id].point = null; Plotly.Fx.unhover(place); });
  }
  for (const select of document.querySelectorAll("select[data-figure]"))
    select.addEventListener("change", () => { chosen[select.dataset.figure].index = Number(select.value); draw(select.dataset.figure); });
  for (const select of document.querySelectorAll("select[data-colours]"))
    select.addEventListener("change", () => { chosen[select.dataset.colours].upper = select.value === "upper"; draw(select.dataset.colours); });

  let width = document.body.clientWidth, waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { if (document.body.clientWidth !== width) { width = document.body.clientWidth; drawAll(); } }, 120);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => { root.classList.add("print"); drawAll(); });
  addEventListener("afterprint", () => { root.classList.remove("print"); drawAll(); });
  drawAll().then(() => { root.dataset.ready = "yes"; });
})();
