"use strict";
(() => {
  const root = document.documentElement;
  const note = (message) => {
    root.dataset.errors = [root.dataset.errors, message].filter(Boolean).join(" | ");
  };
  window.addEventListener("error", (event) => note(event.message));
  document.addEventListener("securitypolicyviolation", (event) => note(`blocked: ${event.blockedURI}`));

  // Figures name colours as CSS variables, so that one page serves light and dark.
  const resolve = (value, style) => {
    if (typeof value === "string") {
      return value.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
    }
    if (Array.isArray(value)) return value.map((item) => resolve(item, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolve(item, style)]));
    }
    return value;
  };
  const config = { responsive: true, displaylogo: false, displayModeBar: false };
  const draw = () => {
    const style = getComputedStyle(root);
    let drawn = 0;
    for (const data of document.querySelectorAll("script[data-plot]")) {
      const figure = resolve(JSON.parse(data.textContent), style);
      const target = document.getElementById(data.dataset.plot);
      Plotly.react(target, figure.data, figure.layout, config);
      drawn += 1;
    }
    root.dataset.plots = String(drawn);
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  // Tables sort by a cell's data-value where it has one, else by its text.
  const key = (row, index) => {
    const cell = row.cells[index];
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = Number(text);
    return text === "" ? null : Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const body = head.closest("table").tBodies[0];
      const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", direction);
      const sign = direction === "ascending" ? 1 : -1;
      const rows = [...body.rows].map((row) => [key(row, head.cellIndex), row]);
      // What has no value stays at the end either way.
      rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : sign * compare(a, b)));
      body.append(...rows.map(([, row]) => row));
    });
  }
})();
