"use strict";
// Switches of metric and reference, sorting of tables, and the contents that follow the reader.

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

function sortBy(header) {
  const table = header.closest("table");
  const body = table.tBodies[0];
  const column = Number(header.dataset.column);
  const numeric = header.classList.contains("n");
  const before = header.getAttribute("aria-sort");
  // Numbers start with the largest, names with the first.
  const ascending = before ? before === "descending" : !numeric;
  for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const value = (row) => row.cells[column].dataset.value.replace(/inf$/, "Infinity");
  const rows = [...body.rows].filter((row) => !row.classList.contains("total"));
  const totals = [...body.rows].filter((row) => row.classList.contains("total"));
  rows.sort((first, second) => {
    const [a, b] = [value(first), value(second)];
    if (a === "" || b === "") return (a === "") - (b === ""); // what is missing comes last
    const order = numeric ? Number(a) - Number(b) : a.localeCompare(b, "en");
    return ascending ? order : -order;
  });
  body.append(...rows, ...totals);
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
