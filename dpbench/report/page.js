"use strict";
{
  const STEP = 100;
  const CHOICES = ["request", "estimator", "family", "distribution", "privacy", "notion", "verdict"];
  const MOST_CHOICES = 100;
  const collator = new Intl.Collator("en", { numeric: true });

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  // Four significant digits; whole numbers below a million in full.
  function digits(value) {
    if (Number.isNaN(value)) return "";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
    const size = Math.abs(value);
    if (value === 0 || (Number.isInteger(value) && size < 1e6)) return String(value);
    if (size >= 1e-3 && size < 1e6) return String(Number(value.toPrecision(4)));
    return Number(value.toPrecision(4)).toExponential().replace("e+", "e");
  }

  function read(column) {
    if (column.labels) {
      const values = column.places.map((place) => column.labels[place]);
      return { ...column, values, text: (row) => values[row] };
    }
    // JSON has no NaN and no infinity: null and text stand for them
    const values = column.values.map((value) => (value === null ? NaN : Number(value)));
    return { ...column, values, text: (row) => digits(values[row]) };
  }

  // What is missing comes last, whichever way the rest goes.
  function comparison(column, sign) {
    const { values, labels } = column;
    if (labels) return (a, b) => sign * collator.compare(values[a], values[b]);
    return (a, b) => {
      const [missingA, missingB] = [Number.isNaN(values[a]), Number.isNaN(values[b])];
      if (missingA || missingB) return missingA - missingB;
      return sign * ((values[a] > values[b]) - (values[a] < values[b]));
    };
  }

  class Grid {
    constructor(host) {
      const data = JSON.parse(document.getElementById(host.dataset.grid).textContent);
      this.columns = data.columns.map(read);
      this.tones = data.tones;
      this.size = data.size;
      this.order = Array.from({ length: data.size }, (_, row) => row);
      this.limit = STEP;
      this.all = false;
      this.head = element("tr");
      this.body = element("tbody");
      this.count = element("output");
      this.count.setAttribute("aria-live", "polite");
      this.more = element("button", { type: "button", className: "more", onclick: () => this.extend() });
      const table = element("table", {}, element("caption", {}, data.caption), element("thead", {}, this.head), this.body);
      const scroll = element("div", { className: "scroll", tabIndex: 0 }, table);
      scroll.setAttribute("role", "region");
      scroll.setAttribute("aria-label", data.caption);
      host.replaceChildren(this.tools(), scroll, this.more);
      this.drawHead();
      this.filter();
    }

    tools() {
      const refresh = () => this.filter();
      this.search = element("input", { type: "search", oninput: refresh });
      const tools = element("div", { className: "tools" }, element("label", {}, "filter rows", this.search));
      this.selects = this.choices().map((column) => {
        const options = [...column.labels].filter((label) => label !== "").sort(collator.compare);
        const select = element("select", { onchange: refresh }, element("option", { value: "" }, "all"));
        // places, as a label could be empty
        select.append(...options.map((o) => element("option", { value: column.labels.indexOf(o) }, o)));
        tools.append(element("label", {}, column.name, select));
        return { column, select };
      });
      if (this.columns.some((column) => !column.main)) {
        const box = element("input", { type: "checkbox", onchange: () => this.toggle(box.checked) });
        tools.append(element("label", { className: "check" }, box, `all ${this.columns.length} columns`));
      }
      tools.append(this.count);
      return tools;
    }

    choices() {
      const useful = ({ labels }) => labels && labels.length > 1 && labels.length <= MOST_CHOICES;
      const found = this.columns.filter((column) => CHOICES.includes(column.name) && useful(column));
      const families = found.some((column) => column.name === "family");
      return found.filter((column) => !(families && column.name === "distribution"));
    }

    shown() {
      return this.columns.filter((column) => column.main || this.all);
    }

    drawHead() {
      this.head.replaceChildren(...this.shown().map((column) => {
        const button = element("button", { type: "button", onclick: () => this.sort(column) }, column.name);
        const cell = element("th", { scope: "col", className: column.labels ? "" : "number" }, button);
        if (column === this.sorted) cell.setAttribute("aria-sort", this.sign > 0 ? "ascending" : "descending");
        column.cell = cell;
        return cell;
      }));
    }

    sort(column) {
      this.sign = column === this.sorted ? -this.sign : 1;
      this.sorted?.cell.removeAttribute("aria-sort");
      this.sorted = column;
      column.cell.setAttribute("aria-sort", this.sign > 0 ? "ascending" : "descending");
      this.order.sort(comparison(column, this.sign));
      this.filter();
    }

    filter() {
      const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const chosen = this.selects.filter(({ select }) => select.value !== "");
      this.found = this.order.filter((row) =>
        chosen.every(({ column, select }) => column.places[row] === Number(select.value)) &&
        words.every((word) => this.haystack(row).includes(word)));
      this.count.textContent = `${this.found.length} of ${this.size} rows`;
      this.limit = STEP;
      this.drawRows();
    }

    haystack(row) {
      this.hay ??= [];
      return (this.hay[row] ??= this.columns.map((column) => column.text(row)).join("\n").toLowerCase());
    }

    toggle(all) {
      this.all = all;
      this.drawHead();
      this.drawRows();
    }

    extend() {
      this.limit += STEP;
      this.drawRows();
    }

    drawRows() {
      const columns = this.shown();
      this.body.replaceChildren(...this.found.slice(0, this.limit).map((row) =>
        element("tr", {}, ...columns.map((column) => this.drawCell(column, row)))));
      const left = this.found.length - this.limit;
      this.more.hidden = left <= 0;
      this.more.textContent = `show ${Math.min(STEP, left)} more of ${left}`;
    }

    drawCell(column, row) {
      const text = column.text(row);
      if (column.name === "verdict") {
        const known = Object.hasOwn(this.tones, text) ? this.tones[text] : "";
        return element("td", {}, element("span", { className: `verdict ${known}` }, text));
      }
      const cell = element("td", { className: column.labels ? "" : "number" }, text);
      const whole = String(column.values[row]);
      if (!column.labels && text && Number.isFinite(column.values[row]) && whole !== text) cell.title = whole;
      return cell;
    }
  }

  document.querySelectorAll(".grid").forEach((host) => new Grid(host));

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.printed:not([open])")];
    opened.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));
}
