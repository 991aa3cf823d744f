"use strict";
{
  // Tables of class "grid" or "sortable": a click on a heading sorts the rows.
  const collator = new Intl.Collator("en", { numeric: true });
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const plain = (all, sign, power) => `${all[0] === "1" ? 1 : ""}e${sign && "-"}${[...power].map((digit) => digits.indexOf(digit)).join("")}`;
  // Numbers with powers, such as 10⁶ and 1.5×10⁻⁶, are read as 1e6 and 1.5e-6.
  const number = (text) => Number.parseFloat(text.replace(/×?10(⁻?)([⁰¹²³⁴⁵⁶⁷⁸⁹]+)/, plain).replace("∞", "Infinity").replaceAll(",", ""));

  // Sort words alphabetically, and numbers by size; empty cells come last in both directions.
  function sort(table, cell, place) {
    const sign = cell.ariaSort === "ascending" ? -1 : 1;
    const keyed = [...table.tBodies[0].rows].map((row) => [row.cells[place].textContent.replace(/^[\s—]*$/, ""), row]);
    const words = table.classList.contains("grid")
      ? cell.className === "w" : keyed.some(([key]) => key && Number.isNaN(number(key)));
    keyed.sort(([a], [b]) => {
      if (!a || !b) return !a - !b;
      return sign * (words ? collator.compare(a, b) : (number(a) > number(b)) - (number(a) < number(b)));
    });
    table.tBodies[0].append(...keyed.map(([, row]) => row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    cell.ariaSort = sign > 0 ? "ascending" : "descending";
  }

  for (const table of document.querySelectorAll("table.grid, table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((cell, place) => {
      if (!cell.textContent.trim()) return;
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: cell.textContent.trim(), onclick: () => sort(table, cell, place) });
      cell.replaceChildren(button);
    });
  }
}
