"use strict";
{
  const collator = new Intl.Collator("en", { numeric: true });
  const number = (text) => Number(text.replace("∞", "Infinity"));

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  // Sort words alphabetically and numbers by size; empty cells come last in both directions.
  function sort(table, cell, place) {
    const sign = cell.ariaSort === "ascending" ? -1 : 1;
    const words = cell.className === "w";
    const keyed = [...table.tBodies[0].rows].map((row) => [row.cells[place].textContent, row]);
    keyed.sort(([a], [b]) => {
      if (!a || !b) return !a - !b;
      return sign * (words ? collator.compare(a, b) : (number(a) > number(b)) - (number(a) < number(b)));
    });
    table.tBodies[0].append(...keyed.map(([, row]) => row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    cell.ariaSort = sign > 0 ? "ascending" : "descending";
  }

  for (const table of document.querySelectorAll("table.grid")) {
    [...table.tHead.rows[0].cells].forEach((cell, place) => {
      const press = () => sort(table, cell, place);
      cell.replaceChildren(element("button", { type: "button", onclick: press }, cell.textContent));
    });
    const rows = [...table.tBodies[0].rows];
    const count = element("output", { ariaLive: "polite" });
    const search = element("input", { type: "search" });
    search.oninput = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        row.text ??= [...row.cells].map((cell) => cell.textContent).join("\n").toLowerCase();
        row.hidden = !words.every((word) => row.text.includes(word));
      }
      count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
    };
    const tools = element("div", { className: "tools" }, element("label", {}, "show rows with ", search), count);
    table.parentNode.before(tools);
  }

  // Open all groups before printing, because paper cannot.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.group:not([open])")];
    opened.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));
}
