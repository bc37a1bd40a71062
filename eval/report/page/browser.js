"use strict";
// The task browser: draws one task's series on a canvas with zoom and read-out.

(() => {
  const { unpack, ticks, number } = taskSeries;
  const data = JSON.parse(document.getElementById("task-data").textContent);
  const root = document.getElementById("task-browser");
  if (!root || !data.tasks.length) return;

  const element = (id) => document.getElementById(id);
  const canvas = element("task-chart");
  const byId = new Map(data.tasks.map((task) => [task.id, task]));
  const styles = new Map(data.models.map((model) => [model.name, model]));
  const shown = new Set(); // names of the models drawn
  let task = null; // the chosen task, unpacked
  let view = [0, 1]; // first and last step drawn
  let hover = null; // step under the pointer

  function arrange(chosen, series) {
    const found = { ...chosen, covariates: [], models: new Map() };
    for (const one of series) {
      if (one.part === "covariate") found.covariates.push(one);
      else if (one.model === undefined) found[one.part] = one;
      else {
        if (!found.models.has(one.model)) found.models.set(one.model, {});
        found.models.get(one.model)[one.part] = one.values;
      }
    }
    found.steps = chosen.axes.context + chosen.axes.horizon;
    return found;
  }

  // Drawing.
  const LEFT = 66, RIGHT = 10, TOP = 22, TARGET = 330, COVARIATE = 58, GAP = 24, BOTTOM = 26;

  const panels = () => {
    const found = [{ top: TOP, height: TARGET }];
    for (const covariate of task.covariates) {
      const last = found[found.length - 1];
      found.push({ top: last.top + last.height + GAP, height: COVARIATE, covariate });
    }
    return found;
  };
  const width = () => canvas.clientWidth - LEFT - RIGHT;
  const atStep = (step) => LEFT + ((step - view[0]) / (view[1] - view[0])) * width();
  const stepAt = (x) => view[0] + ((x - LEFT) / width()) * (view[1] - view[0]);

  function extent(lists) {
    let [low, high] = [Infinity, -Infinity];
    for (const { values, start } of lists) {
      const first = Math.max(0, Math.floor(view[0]) - start);
      const last = Math.min(values.length - 1, Math.ceil(view[1]) - start);
      for (let step = first; step <= last; step++) {
        if (values[step] < low) low = values[step];
        if (values[step] > high) high = values[step];
      }
    }
    if (low > high) return [0, 1];
    const margin = (high - low) * 0.06 || Math.abs(high) * 0.06 || 1;
    return [low - margin, high + margin];
  }

  // A path through values; where several steps fall on one pixel, their extremes.
  function path(context, values, start, y) {
    const first = Math.max(0, Math.floor(view[0]) - start - 1);
    const last = Math.min(values.length - 1, Math.ceil(view[1]) - start + 1);
    const perPixel = (view[1] - view[0]) / Math.max(1, width());
    let down = false;
    const go = (step, value) => {
      if (!Number.isFinite(value)) { down = false; return; }
      const [x, at] = [atStep(step + start), y(value)];
      if (down) context.lineTo(x, at); else context.moveTo(x, at);
      down = true;
    };
    context.beginPath();
    const size = Math.max(1, Math.floor(perPixel));
    for (let step = first; step <= last; step += size) {
      let [low, high] = [step, step];
      for (let other = step; other < Math.min(step + size, last + 1); other++) {
        if (values[other] < values[low]) low = other;
        if (values[other] > values[high]) high = other;
      }
      go(Math.min(low, high), values[Math.min(low, high)]);
      if (low !== high) go(Math.max(low, high), values[Math.max(low, high)]);
    }
    context.stroke();
  }

  function band(context, low, high, start, y) {
    context.beginPath();
    for (let step = 0; step < low.length; step++) context.lineTo(atStep(step + start), y(high[step]));
    for (let step = low.length - 1; step >= 0; step--) context.lineTo(atStep(step + start), y(low[step]));
    context.closePath();
    context.fill();
  }

  function draw() {
    if (!task) return;
    const all = panels();
    const end = all[all.length - 1];
    const height = end.top + end.height + BOTTOM;
    const ratio = devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, height);
    context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    context.lineJoin = "round";
    for (const panel of all) drawPanel(context, panel);
    context.fillStyle = "#444";
    context.textAlign = "center";
    const origin = task.axes.context;
    for (const at of ticks(view[0] - origin, view[1] - origin, 10)) {
      const x = atStep(at + origin);
      context.fillText(Math.round(at).toLocaleString("en").replace("-", "−"), x, height - 8);
    }
    if (hover !== null) {
      context.strokeStyle = "#333";
      context.lineWidth = 1;
      context.setLineDash([]);
      context.beginPath();
      context.moveTo(atStep(hover), TOP);
      context.lineTo(atStep(hover), end.top + end.height);
      context.stroke();
    }
  }

  function drawPanel(context, { top, height, covariate }) {
    const { context: origin, horizon, event_length: length } = task.axes;
    const lists = covariate
      ? [{ values: covariate.values, start: 0 }]
      : [
          { values: task.history.values, start: 0 },
          { values: task.truth.values, start: origin },
          { values: task.baseline.values, start: origin },
          ...[...task.models].filter(([name]) => shown.has(name)).flatMap(([, one]) =>
            Object.values(one).map((values) => ({ values, start: origin }))),
        ];
    const [low, high] = extent(lists);
    const y = (value) => top + height - ((value - low) / (high - low)) * height;
    context.save();
    context.beginPath();
    context.rect(LEFT, top, width(), height);
    context.clip();
    const shade = (from, to, colour) => {
      context.fillStyle = colour;
      context.fillRect(atStep(from), top, atStep(to) - atStep(from), height);
    };
    for (const start of task.events) shade(start - 0.5, start + length - 0.5, "#e3e8ed");
    shade(origin - 0.5, origin + horizon - 0.5, "#fdf1d3");
    context.strokeStyle = "#d5dae0";
    context.lineWidth = 1;
    const marks = ticks(low, high, covariate ? 2 : 6);
    for (const mark of marks) {
      context.beginPath();
      context.moveTo(LEFT, y(mark));
      context.lineTo(LEFT + width(), y(mark));
      context.stroke();
    }
    if (covariate) {
      context.strokeStyle = "#4a5560";
      context.lineWidth = 1.5;
      path(context, covariate.values, 0, y);
    } else {
      drawTarget(context, origin, y);
    }
    context.restore();
    context.strokeStyle = "#9aa3ac";
    context.strokeRect(LEFT + 0.5, top + 0.5, width() - 1, height - 1);
    context.fillStyle = "#444";
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const mark of marks) context.fillText(number(mark), LEFT - 6, y(mark));
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillStyle = "#1c1f23";
    const name = covariate ? covariate.name : task.axes.target;
    const unit = covariate ? covariate.unit : task.history.unit;
    context.fillText(unit && unit !== "1" ? `${name} (${unit})` : name, LEFT, top - 6);
  }

  function drawTarget(context, origin, y) {
    for (const [name, one] of task.models) {
      if (!shown.has(name) || !one.low) continue;
      context.fillStyle = styles.get(name).colour + "2b";
      band(context, one.low, one.high, origin, y);
    }
    context.strokeStyle = "#6d7680";
    context.lineWidth = 1.3;
    path(context, task.history.values, 0, y);
    context.strokeStyle = "#777";
    context.setLineDash([4, 3]);
    context.lineWidth = 1.6;
    path(context, task.baseline.values, origin, y);
    context.setLineDash([]);
    context.strokeStyle = "#111";
    context.lineWidth = 2;
    path(context, task.truth.values, origin, y);
    for (const [name, one] of task.models) {
      if (!shown.has(name)) continue;
      const style = styles.get(name);
      context.strokeStyle = style.colour;
      context.lineWidth = 1.9;
      context.setLineDash(style.dashes ? style.dashes.split(" ").map(Number) : []);
      path(context, one.median, origin, y);
    }
    context.setLineDash([]);
  }

  // Reading values.
  function readout() {
    const out = element("task-readout");
    if (hover === null) {
      out.textContent = "Move over the chart to read values; drag to move, turn the wheel to zoom.";
      return;
    }
    const origin = task.axes.context;
    const step = hover - origin;
    const parts = [`step ${number(step)}`];
    if (step < 0) parts.push(`${task.axes.target} ${number(task.history.values[hover])}`);
    else {
      parts.push(`truth ${number(task.truth.values[step])}`);
      parts.push(`without the event ${number(task.baseline.values[step])}`);
      for (const [name, one] of task.models) {
        if (!shown.has(name)) continue;
        const ends = one.low ? ` (${number(one.low[step])} to ${number(one.high[step])})` : "";
        parts.push(`${name} ${number(one.median[step])}${ends}`);
      }
    }
    for (const covariate of task.covariates) {
      parts.push(`${covariate.name} ${number(covariate.values[hover])}`);
    }
    out.textContent = parts.join(" · ");
  }

  // Zoom.
  function setView(first, last, button = null) {
    const least = Math.min(12, task.steps - 1);
    let size = Math.max(least, Math.min(last - first, task.steps - 1));
    let start = Math.max(0, Math.min(first, task.steps - 1 - size));
    view = [start, start + size];
    for (const id of ["zoom-horizon", "zoom-whole"]) {
      element(id).setAttribute("aria-pressed", String(id === button));
    }
    canvas.dataset.first = view[0].toFixed(2);
    canvas.dataset.last = view[1].toFixed(2);
    draw();
  }
  const zoomHorizon = () =>
    setView(task.axes.context - Math.round(task.axes.horizon / 2), task.steps - 1, "zoom-horizon");
  const zoomWhole = () => setView(0, task.steps - 1, "zoom-whole");
  element("zoom-horizon").addEventListener("click", zoomHorizon);
  element("zoom-whole").addEventListener("click", zoomWhole);

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const middle = stepAt(event.offsetX);
    const factor = event.deltaY > 0 ? 1.25 : 0.8;
    setView(middle + (view[0] - middle) * factor, middle + (view[1] - middle) * factor);
  }, { passive: false });
  let grabbed = null;
  canvas.addEventListener("pointerdown", (event) => {
    grabbed = { x: event.offsetX, view: [...view] };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { grabbed = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (grabbed && Math.abs(event.offsetX - grabbed.x) > 3) {
      const moved = ((grabbed.x - event.offsetX) / width()) * (grabbed.view[1] - grabbed.view[0]);
      setView(grabbed.view[0] + moved, grabbed.view[1] + moved);
    }
    const step = Math.round(stepAt(event.offsetX));
    hover = step >= Math.ceil(view[0]) && step <= view[1] ? Math.min(step, task.steps - 1) : null;
    draw();
    readout();
  });
  canvas.addEventListener("pointerleave", () => { hover = null; draw(); readout(); });
  canvas.addEventListener("keydown", (event) => {
    const moved = { ArrowLeft: -0.1, ArrowRight: 0.1 }[event.key];
    const factor = { "+": 0.8, "-": 1.25 }[event.key];
    const size = view[1] - view[0];
    if (moved) setView(view[0] + moved * size, view[1] + moved * size);
    else if (factor) setView(view[0] + (size * (1 - factor)) / 2, view[1] - (size * (1 - factor)) / 2);
    else return;
    event.preventDefault();
  });
  addEventListener("resize", draw);

  // Choosing a task.
  const describe = ({ id, axes }) =>
    `${id}: ${axes.system} ${axes.target}, K ${axes.k}, ${axes.n_events} × ${axes.event_length}, ${axes.context_pair}, ${axes.future}`;
  const otherOf = (chosen) => data.tasks.find(
    (one) => one.axes.pair_id === chosen.axes.pair_id && one.id !== chosen.id);

  function listModels() {
    const body = element("task-models").tBodies[0];
    body.replaceChildren();
    for (const { name } of data.models) {
      const one = task.models.get(name);
      const scores = task.scores[name];
      if (!one && !scores) continue;
      const row = body.insertRow();
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = shown.has(name) && Boolean(one);
      box.disabled = !one;
      box.setAttribute("aria-label", `Show ${name}`);
      box.addEventListener("change", () => {
        if (box.checked) shown.add(name); else shown.delete(name);
        draw();
        readout();
      });
      row.insertCell().append(box);
      const label = row.insertCell();
      label.innerHTML = styles.get(name).swatch;
      label.append(name);
      for (const score of [0, 1]) {
        const cell = row.insertCell();
        cell.className = "n";
        cell.textContent = !scores ? "–" : scores[score] === null ? "∞" : number(scores[score]);
      }
      row.insertCell().textContent = !one ? "not kept" : scores && scores[2] ? "imputed" : one.low ? "quantiles" : "point";
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
    canvas.dataset.state = "loading";
    try {
      task = arrange(chosen, await unpack(chosen.data));
    } catch (problem) {
      error.hidden = false;
      error.textContent = `Task ${id} could not be unpacked: ${problem}`;
      return;
    }
    hover = null;
    element("task-id").value = String(id);
    element("task-list").value = String(id);
    const { axes } = task;
    element("task-about").textContent =
      `${axes.system}, ${axes.target}: ${axes.future} future, ${axes.k} covariate${axes.k > 1 ? "s" : ""}, ` +
      `${axes.n_events} event${axes.n_events > 1 ? "s" : ""} of ${axes.event_length} steps (${axes.setting}), ` +
      `context ${axes.context.toLocaleString("en")} (${axes.context_pair}), horizon ${axes.horizon}. Step 0 is the first of the horizon.`;
    element("other").disabled = !otherOf(chosen);
    const place = data.tasks.indexOf(chosen);
    element("previous").disabled = place === 0;
    element("next").disabled = place === data.tasks.length - 1;
    listModels();
    zoomWhole();
    readout();
    canvas.dataset.task = String(id);
    canvas.dataset.state = "ready";
  }

  for (const one of data.tasks) {
    const option = document.createElement("option");
    option.value = String(one.id);
    option.textContent = describe(one);
    element("task-list").append(option);
    element("task-ids").append(option.cloneNode(true));
  }
  const typed = () => {
    const text = element("task-id").value.trim();
    if (text) choose(/^\d+$/.test(text) ? Number(text) : text);
  };
  element("task-id").addEventListener("change", typed);
  element("task-list").addEventListener("change", (event) => choose(Number(event.target.value)));
  const step = (by) => choose(data.tasks[data.tasks.indexOf(byId.get(task.id)) + by].id);
  element("previous").addEventListener("click", () => step(-1));
  element("next").addEventListener("click", () => step(1));
  element("other").addEventListener("click", () => choose(otherOf(byId.get(task.id)).id));

  for (const { name } of data.models.filter((model) => model.kept).slice(0, 3)) shown.add(name);
  choose(data.tasks[0].id);
})();
