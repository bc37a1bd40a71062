"use strict";
// Switches of metric and reference, models of the line charts, sorting of tables, and the contents
// that follow the reader.

const chosen = document.documentElement.dataset;

function applySwitches() {
  for (const element of document.querySelectorAll(".variant")) {
    const { metric, reference } = element.dataset;
    element.hidden =
      (metric !== undefined && metric !== chosen.metric) ||
      (reference !== undefined && reference !== chosen.reference);
  }
}

for (const name of ["metric", "reference"]) {
  for (const input of document.querySelectorAll(`input[name="${name}"]`)) {
    input.checked = input.value === chosen[name]; // browsers restore form values on reload
    input.addEventListener("change", () => {
      chosen[name] = input.value;
      applySwitches();
    });
  }
}
applySwitches();

// What is drawn of the model at a place has a name that begins with it in every line chart, whose
// first style hides the models that are not drawn. All charts draw the same ones.
const boxes = [...document.querySelectorAll(".models input")];

function drawModels(places) {
  for (const box of boxes) box.checked = places.has(box.value);
  for (const count of document.querySelectorAll(".models .count")) count.textContent = places.size;
  const hidden = new Set(boxes.map((box) => box.value).filter((place) => !places.has(place)));
  const names = [...hidden].map((place) => `[id^="model${place}-"]`).join() || "none";
  for (const image of document.querySelectorAll("figure:has(.models) img")) {
    const [head, code] = image.src.split(",");
    const svg = atob(code).replace(/(<style id="hidden">)[^{]*/, (_, start) => start + names);
    image.src = `${head},${btoa(svg)}`;
  }
}

for (const box of boxes) {
  box.checked = "drawn" in box.dataset; // browsers restore form values on reload
  box.addEventListener("change", () => {
    const same = boxes.filter((one) => one.closest("figure") === box.closest("figure") && one.checked);
    drawModels(new Set(same.map((one) => one.value)));
  });
}
for (const button of document.querySelectorAll(".models button")) {
  button.addEventListener("click", () => {
    const wanted = boxes.filter((box) => button.dataset.draw === "all" || "drawn" in box.dataset);
    drawModels(new Set(wanted.map((box) => box.value)));
  });
}

function sortBy(header) {
  const table = header.closest("table");
  const column = Number(header.dataset.column);
  const numeric = header.classList.contains("n");
  const before = header.getAttribute("aria-sort");
  // Numbers start with the largest, names with the first.
  const ascending = before ? before === "descending" : !numeric;
  for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const value = (row) => row.cells[column].dataset.value.replace(/inf$/, "Infinity");
  // Each body is a ranking of its own, which begins with its heading.
  for (const body of table.tBodies) {
    const of = (name) => [...body.rows].filter((row) => row.classList.contains(name));
    const rows = [...body.rows].filter((row) => !row.className);
    rows.sort((first, second) => {
      const [a, b] = [value(first), value(second)];
      if (a === "" || b === "") return (a === "") - (b === ""); // what is missing comes last
      const order = numeric ? Number(a) - Number(b) : a.localeCompare(b, "en");
      return ascending ? order : -order;
    });
    body.append(...of("split"), ...rows, ...of("total"));
  }
}

for (const header of document.querySelectorAll("th.sort")) {
  header.addEventListener("click", () => sortBy(header));
}

// The reader is in the last section whose head is near the top of the window or above it.
function markSection() {
  const sections = [...document.querySelectorAll("main > section")];
  const above = sections.filter((section) => section.getBoundingClientRect().top < 140);
  const here = (above.at(-1) ?? sections[0]).id;
  for (const link of document.querySelectorAll("nav a")) {
    link.classList.toggle("here", link.hash === `#${here}`);
  }
}

addEventListener("scroll", () => requestAnimationFrame(markSection), { passive: true });
markSection();
