"use strict";
// The task browser: one chart of the target and one of each covariate, over the same steps. Step 0
// is the first of the horizon.

(() => {
  const data = JSON.parse(document.getElementById("task-data").textContent);
  if (!data.tasks.length) return;

  const element = (id) => document.getElementById(id);
  const chart = element("task-chart");
  const colourOf = (name) => getComputedStyle(chart).getPropertyValue(`--${name}`);
  const byId = new Map(data.tasks.map((task) => [task.id, task]));
  const shown = new Set(); // names of the models drawn
  let task = null; // the chosen task, unpacked
  let plots = []; // of the target, then of each covariate
  let view = [0, 1]; // first and last step drawn

  const number = (value, digits = 4) =>
    Number.isFinite(value)
      ? Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits }).replace("-", "−")
      : "–";

  // Unpacking: what eval/report/browser.py packs.
  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const content = new Uint8Array(await new Response(stream).arrayBuffer());
    const size = new DataView(content.buffer).getUint32(0, true);
    const headers = JSON.parse(new TextDecoder().decode(content.subarray(4, 4 + size)));
    const total = headers.reduce((sum, header) => sum + header.steps, 0);
    const [high, low] = [content.subarray(4 + size), content.subarray(4 + size + total)];
    let start = 0;
    return headers.map((header) => {
      let code = 0;
      const values = Array.from({ length: header.steps }, (_, step) => {
        code = (code + high[start + step] * 256 + low[start + step]) & 65535;
        return code === 65535 ? null : header.low + header.scale * code;
      });
      start += header.steps;
      return { ...header, values };
    });
  }

  function arrange(chosen, series) {
    const { context, horizon } = chosen.axes;
    const found = { ...chosen, covariates: [], models: new Map() };
    for (const one of series) {
      if (one.part === "covariate") found.covariates.push(one);
      else if (one.model === undefined) found[one.part] = one;
      else found.models.set(one.model, { ...found.models.get(one.model), [one.part]: one.values });
    }
    found.steps = Array.from({ length: context + horizon }, (_, step) => step - context);
    return found;
  }

  // Drawing.
  function addPlot(title, unit, height, lines, bands, last) {
    const text = { font: `12px ${getComputedStyle(document.body).fontFamily}`, stroke: "#444" };
    const values = (_, marks) => marks.map((mark) => number(mark, 6));
    const gap = (low, high) => (high - low) * 0.06 || Math.abs(high) * 0.06 || 1;
    plots.push(new uPlot({
      title: unit && unit !== "1" ? `${title} (${unit})` : title,
      width: chart.clientWidth,
      height: height + (last ? 22 : 0),
      padding: [7, 10, 7, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false }, sync: { key: "task" } },
      scales: {
        x: { time: false },
        y: { range: (_, low, high) => (low === null ? [0, 1] : [low - gap(low, high), high + gap(low, high)]) },
      },
      axes: [
        { ...text, values, show: last, size: 22, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000], space: 80, grid: { show: false }, ticks: { show: false } },
        { ...text, values, size: 66, gap: 6, space: Math.max(22, height / 7), grid: { stroke: "#d5dae0", width: 1 }, ticks: { show: false } },
      ],
      series: [{}, ...lines.map((one) => ({ points: { show: false }, pxAlign: 0, ...one }))],
      bands,
      hooks: { drawClear: [shade], setCursor: [(plot) => plot === plots[0] && readOut()] },
    }, [task.steps, ...lines.map((one) => one.column)], chart));
  }

  // Events and the horizon, behind everything.
  function shade(plot) {
    const { left, top, width, height } = plot.bbox;
    const { horizon, context, event_length: length } = task.axes;
    const fill = (first, steps, colour) => {
      const [from, to] = [first - 0.5, first + steps - 0.5].map((step) => plot.valToPos(step, "x", true));
      plot.ctx.fillStyle = colour;
      plot.ctx.fillRect(from, top, to - from, height);
    };
    plot.ctx.save();
    plot.ctx.beginPath();
    plot.ctx.rect(left, top, width, height);
    plot.ctx.clip();
    for (const start of task.events) fill(start - context, length, colourOf("event"));
    fill(0, horizon, colourOf("horizon"));
    plot.ctx.restore();
  }

  // A line of values from some step on, at every step of the task.
  const line = (values, start, options) =>
    ({ column: task.steps.map((step) => values[step - start] ?? null), ...options });

  function drawTask() {
    for (const plot of plots) plot.destroy();
    plots = [];
    const origin = -task.axes.context;
    const [lines, medians, bands] = [[], [], []];
    for (const { name, colour, dashes } of data.models) {
      const one = task.models.get(name);
      if (!one) continue;
      const model = { model: name, show: shown.has(name) };
      if (one.low) {
        lines.push(line(one.high, 0, { ...model, width: 0 }), line(one.low, 0, { ...model, width: 0 }));
        bands.push({ series: [lines.length - 1, lines.length], fill: `${colour}2b` });
      }
      const dash = dashes ? dashes.split(" ").map(Number) : [];
      medians.push(line(one.median, 0, { ...model, stroke: colour, width: 1.9, dash }));
    }
    lines.push(
      line(task.history.values, origin, { stroke: colourOf("history"), width: 1.3 }),
      line(task.baseline.values, 0, { stroke: colourOf("baseline"), width: 1.6, dash: [4, 3] }),
      ...medians,
      line(task.truth.values, 0, { stroke: colourOf("truth"), width: 2 }),
    );
    addPlot(task.axes.target, task.history.unit, 344, lines, bands, !task.covariates.length);
    task.covariates.forEach(({ name, unit, values }, place) => {
      const last = place === task.covariates.length - 1;
      addPlot(name, unit, 72, [line(values, origin, { stroke: colourOf("covariate"), width: 1.5 })], [], last);
    });
  }

  function showModel(name, show) {
    if (show) shown.add(name); else shown.delete(name);
    plots[0].series.forEach((one, place) => {
      if (one.model === name) plots[0].setSeries(place, { show });
    });
    readOut();
  }

  function readOut() {
    const place = plots[0]?.cursor.idx ?? null;
    if (place === null) {
      element("task-readout").textContent = "Move over the chart to read values; drag to move, turn the wheel to zoom.";
      return;
    }
    const step = task.steps[place];
    const parts = [`step ${number(step)}`];
    if (step < 0) parts.push(`${task.axes.target} ${number(task.history.values[place])}`);
    else {
      parts.push(`truth ${number(task.truth.values[step])}`, `without the event ${number(task.baseline.values[step])}`);
      for (const [name, { median, low, high }] of task.models) {
        if (!shown.has(name)) continue;
        const ends = low ? ` (${number(low[step])} to ${number(high[step])})` : "";
        parts.push(`${name} ${number(median[step])}${ends}`);
      }
    }
    for (const { name, values } of task.covariates) parts.push(`${name} ${number(values[place])}`);
    element("task-readout").textContent = parts.join(" · ");
  }

  // Zoom.
  function setView(first, last, button = null) {
    const [start, end] = [task.steps[0], task.steps.at(-1)];
    const size = Math.min(Math.max(last - first, 12), end - start);
    first = Math.min(Math.max(first, start), end - size);
    view = [first, first + size];
    for (const plot of plots) plot.setScale("x", { min: view[0], max: view[1] });
    for (const id of ["zoom-horizon", "zoom-whole"]) {
      element(id).setAttribute("aria-pressed", String(id === button));
    }
    [chart.dataset.first, chart.dataset.last] = view.map((step) => step.toFixed(2));
  }
  const move = (steps, [first, last] = view) => setView(first + steps, last + steps);
  const zoom = (factor, middle = (view[0] + view[1]) / 2) =>
    setView(...view.map((step) => middle + (step - middle) * factor));
  const zoomWhole = () => setView(task.steps[0], task.steps.at(-1), "zoom-whole");
  element("zoom-whole").addEventListener("click", zoomWhole);
  const zoomHorizon = () => setView(-Math.round(task.axes.horizon / 2), task.axes.horizon - 1, "zoom-horizon");
  element("zoom-horizon").addEventListener("click", zoomHorizon);

  chart.addEventListener("wheel", (event) => {
    event.preventDefault();
    const at = event.clientX - plots[0].over.getBoundingClientRect().left;
    zoom(event.deltaY > 0 ? 1.25 : 0.8, plots[0].posToVal(at, "x"));
  }, { passive: false });
  let grabbed = null;
  chart.addEventListener("pointerdown", ({ clientX }) => { grabbed = { x: clientX, view }; });
  for (const type of ["pointerup", "pointercancel"]) addEventListener(type, () => { grabbed = null; });
  addEventListener("pointermove", ({ clientX }) => {
    if (!grabbed || Math.abs(clientX - grabbed.x) <= 3) return;
    const steps = (grabbed.view[1] - grabbed.view[0]) / plots[0].over.clientWidth;
    move((grabbed.x - clientX) * steps, grabbed.view);
  });
  chart.addEventListener("keydown", (event) => {
    const size = view[1] - view[0];
    const keys = {
      ArrowLeft: () => move(-0.1 * size),
      ArrowRight: () => move(0.1 * size),
      "+": () => zoom(0.8),
      "-": () => zoom(1.25),
    };
    if (!keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
  });
  new ResizeObserver(() => {
    for (const plot of plots) plot.setSize({ width: chart.clientWidth, height: plot.height });
  }).observe(chart);

  // Choosing a task.
  const otherOf = ({ id, axes }) =>
    data.tasks.find((one) => one.axes.pair_id === axes.pair_id && one.id !== id);

  function listModels() {
    const body = element("task-models").tBodies[0];
    body.replaceChildren();
    for (const { name, swatch } of data.models) {
      const one = task.models.get(name);
      const scores = task.scores[name];
      if (!one && !scores) continue;
      const row = body.insertRow();
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = shown.has(name) && Boolean(one);
      box.disabled = !one;
      box.setAttribute("aria-label", `Show ${name}`);
      box.addEventListener("change", () => showModel(name, box.checked));
      row.insertCell().append(box);
      const label = row.insertCell();
      label.innerHTML = swatch;
      label.append(name);
      for (const metric of data.metrics) {
        const cell = row.insertCell();
        cell.className = "n";
        cell.textContent = !scores ? "–" : scores[metric] === null ? "∞" : number(scores[metric]);
      }
      row.insertCell().textContent = !one ? "not kept" : scores?.imputed ? "imputed" : one.low ? "quantiles" : "point";
    }
    if (!body.rows.length) {
      const cell = body.insertRow().insertCell();
      cell.colSpan = body.parentElement.tHead.rows[0].cells.length;
      cell.textContent = "No model was run on this future: samples take tasks, not pairs.";
    }
  }

  async function choose(id) {
    const chosen = byId.get(id);
    const error = element("task-error");
    error.hidden = Boolean(chosen);
    if (!chosen) {
      error.textContent = `Task ${id} was not kept; the ${data.tasks.length} kept ones are in the list.`;
      return;
    }
    chart.dataset.state = "loading";
    try {
      task = arrange(chosen, await unpack(chosen.data));
    } catch (problem) {
      error.hidden = false;
      error.textContent = `Task ${id} could not be unpacked: ${problem}`;
      return;
    }
    const { axes } = task;
    const count = (many, word) => `${many} ${word}${many > 1 ? "s" : ""}`;
    element("task-id").value = element("task-list").value = String(id);
    element("task-about").textContent =
      `${axes.system}, ${axes.target}: ${axes.future} future, ${count(axes.k, "covariate")}, ` +
      `${count(axes.n_events, "event")} of ${axes.event_length} steps (${axes.setting}), ` +
      `context ${number(axes.context)} (${axes.context_pair}), horizon ${axes.horizon}. Step 0 is the first of the horizon.`;
    element("task-note").textContent = chosen.note;
    element("task-note").hidden = !chosen.note;
    element("other").disabled = !otherOf(chosen);
    element("previous").disabled = chosen === data.tasks[0];
    element("next").disabled = chosen === data.tasks.at(-1);
    listModels();
    drawTask();
    zoomHorizon();
    readOut();
    chart.dataset.task = String(id);
    chart.dataset.state = "ready";
  }

  for (const { id, axes } of data.tasks) {
    const text = `${id}: ${axes.system} ${axes.target}, K ${axes.k}, ${axes.n_events} × ${axes.event_length}, ${axes.context_pair}, ${axes.future}`;
    element("task-list").append(new Option(text, id));
    element("task-ids").append(new Option(text, id));
  }
  element("task-id").addEventListener("change", () => {
    const text = element("task-id").value.trim();
    if (text) choose(/^\d+$/.test(text) ? Number(text) : text);
  });
  element("task-list").addEventListener("change", (event) => choose(Number(event.target.value)));
  const step = (by) => choose(data.tasks[data.tasks.indexOf(byId.get(task.id)) + by].id);
  element("previous").addEventListener("click", () => step(-1));
  element("next").addEventListener("click", () => step(1));
  element("other").addEventListener("click", () => choose(otherOf(task).id));

  const kept = data.models.filter((model) => model.kept);
  for (const { name } of [...kept.filter((model) => model.drawn), ...kept].slice(0, 3)) shown.add(name);
  choose(data.first);
})();
