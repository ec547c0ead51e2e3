"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);

  // Colours: as the system has them, light, dark.
  const themes = ["auto", "light", "dark"];
  const said = { auto: "as the system has them", light: "light", dark: "dark" };
  const theme = byId("theme");
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const next = themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length];
    root.dataset.theme = next;
    theme.setAttribute("aria-label", `Colours: ${said[next]}`);
    theme.textContent = { auto: "◐", light: "☀", dark: "☾" }[next];
  });

  // Tables: a click or Enter on a heading sorts, a second one turns the order round.
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = Number(text.replaceAll(",", ""));
    return text !== "" && !Number.isNaN(number) ? number : text;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? 1 : -1; // a dash before the numbers
    return a.localeCompare(b, undefined, { numeric: true });
  };
  const sort = (table, heading) => {
    const headings = [...heading.parentElement.cells];
    const column = headings.indexOf(heading);
    const isNumber = heading.classList.contains("number");
    const before = heading.getAttribute("aria-sort");
    const next = before === "none" ? (isNumber ? "descending" : "ascending") : before === "ascending" ? "descending" : "ascending";
    headings.forEach((one) => one.setAttribute("aria-sort", one === heading ? next : "none"));
    const sign = next === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [valueOf(row, column), row]);
    rows.sort((a, b) => sign * compare(a[0], b[0]));
    body.append(...rows.map((entry) => entry[1]));
  };
  all("table.sortable").forEach((table) => {
    all("thead th", table).forEach((heading) => {
      heading.firstElementChild.addEventListener("click", () => sort(table, heading));
    });
  });

  // Features: rows with a label and a part of a name.
  const later = (run) => {
    let timer = 0;
    return () => {
      clearTimeout(timer);
      timer = setTimeout(run, 80);
    };
  };
  const filter = (table) => {
    const wanted = document.querySelector(`[data-filter="${table.id}"]`).value.trim().toLowerCase();
    const label = document.querySelector(`[data-choose="${table.id}"]`).value;
    let shown = 0;
    all("tbody tr", table).forEach((row) => {
      const fits = (label === "" || row.dataset.label === label) &&
        row.cells[1].textContent.toLowerCase().includes(wanted);
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    byId(`${table.id}-count`).textContent = shown === 1 ? "1 row" : `${shown.toLocaleString("en")} rows`;
  };
  all("[data-filter]").forEach((input) => input.addEventListener("input", later(() => filter(byId(input.dataset.filter)))));
  all("[data-choose]").forEach((select) => select.addEventListener("change", () => filter(byId(select.dataset.choose))));

  // Taxonomy: open and close all, and open what leads to a node with a part of a name.
  const setAll = (tree, isOpen) => all("details", tree).forEach((node) => { node.open = isOpen; });
  all("[data-open]").forEach((button) => button.addEventListener("click", () => setAll(byId(button.dataset.open), true)));
  all("[data-close]").forEach((button) => button.addEventListener("click", () => setAll(byId(button.dataset.close), false)));
  const search = (tree, wanted) => {
    const nodes = all("[data-name]", tree);
    nodes.forEach((node) => { node.classList.remove("found"); node.hidden = wanted !== ""; });
    let n = 0;
    nodes.forEach((node) => {
      if (wanted === "" || !node.dataset.name.toLowerCase().includes(wanted)) return;
      n += 1;
      node.classList.add("found");
      all("[data-name]", node).forEach((below) => { below.hidden = false; });
      for (let at = node; at !== tree; at = at.parentElement) {
        at.hidden = false;
        if (at !== node && at.tagName === "DETAILS") at.open = true;
      }
    });
    byId(`${tree.id}-count`).textContent = wanted === "" ? `${nodes.length.toLocaleString("en")} nodes` : `${n.toLocaleString("en")} found`;
  };
  all("[data-tree]").forEach((input) => {
    const tree = byId(input.dataset.tree);
    input.addEventListener("input", later(() => search(tree, input.value.trim().toLowerCase())));
  });
})();
