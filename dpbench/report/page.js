"use strict";
{
  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  for (const table of document.querySelectorAll("table.grid")) {
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
