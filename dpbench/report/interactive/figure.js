"use strict";
// Replace the still image of each figure by one that can be asked for its numbers. The numbers
// stand beside the image, as dpbench.output.interactive describes them; Vega draws them.
{
  const SCALE = 1.5; // pixels for a point of the printed figure
  const REACH = 40; // pixels from the pointer to the point that it asks for
  const TOGETHER = 4; // points closer than these pixels are told together
  const PANEL_WIDTH = 260; // pixels that a panel needs, at least
  const NEARLY_ZERO = 1e-300; // on a logarithmic axis, far below every frame
  const turn = (count, radius, start = 0) => [...Array(count).keys()].map((i) => {
    const angle = start + (2 * Math.PI * i) / count - Math.PI / 2;
    const r = radius[i % radius.length];
    return [(r * Math.cos(angle)).toFixed(3), (r * Math.sin(angle)).toFixed(3)];
  });
  const polygon = (points) => `M${points.join("L")}Z`;
  const PLUS = [[-0.33, -1], [0.33, -1], [0.33, -0.33], [1, -0.33], [1, 0.33], [0.33, 0.33],
    [0.33, 1], [-0.33, 1], [-0.33, 0.33], [-1, 0.33], [-1, -0.33], [-0.33, -0.33]];
  const SHAPES = {
    s: polygon([[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]),
    D: polygon([[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]]),
    "^": polygon([[0, -1], [1, 1], [-1, 1]]), v: polygon([[0, 1], [1, -1], [-1, -1]]),
    "<": polygon([[-1, 0], [1, -1], [1, 1]]), ">": polygon([[1, 0], [-1, -1], [-1, 1]]),
    P: polygon(PLUS), X: polygon(PLUS.map(([x, y]) => [(x - y) * 0.71, (x + y) * 0.71])),
    h: polygon(turn(6, [1.1])), p: polygon(turn(5, [1.1])), "*": polygon(turn(10, [1.3, 0.52])),
  };
  const CIRCLE = "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z";
  const shape = (line) => SHAPES[line.marker] ?? CIRCLE;
  // Points with equal x may stand side by side: pixels to the right, and down.
  const shift = (line) => [(line.shift?.[0] ?? 0) * SCALE, -(line.shift?.[1] ?? 0) * SCALE];
  const pixels = (lengths) => lengths?.map((length) => length * SCALE);
  const within = (value, [a, b]) => value >= Math.min(a, b) && value <= Math.max(a, b);

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  function drawing(tag, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  // The rule of the page's tables: three significant digits, four from 1 on, powers as 10⁶, and
  // whole numbers below a million in full.
  function number(value) {
    const sized = Math.abs(value), digits = sized >= 1 ? 4 : 3;
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    const minus = (text) => text.replace("-", "−");
    if (Number.isInteger(value) && sized < 1e6) return minus(String(value));
    if (exponent >= -4 && exponent < digits) return minus(value.toPrecision(digits));
    const high = [...String(Number(exponent))].map((digit) => (digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit])).join("");
    return Number(mantissa) === 1 ? `10${high}` : `${minus(String(Number(mantissa)))}×10${high}`;
  }

  const words = (label) => label.replace(/\s+/g, " ");
  const named = (axis, value) => axis.names?.find(([place]) => place === value)?.[1] ?? number(value);

  function interval({ low, high }, { limits }) {
    const end = (value) => (within(value, limits) ? number(value) : "outside of the figure");
    return low == null || high == null ? "" : `${end(low)} to ${end(high)}`;
  }

  // The points of a line that can be asked for: those within the frame.
  function pointsOf(line, panel) {
    if (!line.name || !line.x) return [];
    return line.x.map((x, i) => ({ line, x, y: line.y[i], low: line.low?.[i], high: line.high?.[i] }))
      .filter(({ x, y }) => x !== null && y !== null && within(x, panel.x.limits) && within(y, panel.y.shown ?? panel.y.limits));
  }

  // The numbers of some points: the position once, then the values.
  function tell(panel, points) {
    const told = (pairs) => pairs.filter(([, text]) => text)
      .map(([label, text]) => element("span", {}, `${words(label)}: ${text}`));
    const [{ x }] = points;
    const values = points.map(({ line, ...point }) => element(
      "div", {}, swatch(line), element("b", {}, line.name),
      ...told([
        [panel.x.label, point.x === x ? "" : named(panel.x, point.x)],
        [panel.y.label, named(panel.y, point.y)],
        ["interval", interval(point, panel.y)],
      ]),
    ));
    return [element("div", {}, ...told([[panel.x.label, named(panel.x, x)]])), ...values];
  }

  function swatch(line) {
    const [width, height] = [34, 14];
    const look = { stroke: line.color, "stroke-width": Math.min(line.width * SCALE, 4), "stroke-dasharray": pixels(line.dashes) };
    const parts = line.width ? [drawing("path", { d: `M1,${height / 2}H${width - 1}`, ...look })] : [];
    if (line.marker) {
      const size = (Math.min(line.size, 5) * SCALE) / 2;
      const place = { transform: `translate(${width / 2},${height / 2}) scale(${size})`, "stroke-width": 1 / size };
      parts.push(drawing("path", { d: shape(line), fill: line.hollow ? "none" : line.color, stroke: line.color, ...place }));
    }
    return drawing("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, ...parts);
  }

  function axis(name, { ticks, minor, grid }, title, extent = 0) {
    const common = { scale: name, orient: name === "x" ? "bottom" : "left", domain: false };
    return [
      {
        ...common, minExtent: extent, values: name === "y" ? { signal: "yTicks" } : ticks.map(([place]) => place), grid, gridColor: "#ddd", tickColor: "#555",
        title, titleFontWeight: "normal", titleFontSize: 13, labelFontSize: 12,
        labelOverlap: "greedy", labelSeparation: 5, zindex: 0,
        encode: { labels: { update: { text: { signal: name === "y" ? "yLabels[datum.value] || format(datum.value, '.3~g')" : "xLabels[datum.value]" } } } },
      },
      { ...common, values: name === "y" ? { signal: "yMinor" } : minor, labels: false, tickSize: 3, tickColor: "#555" },
    ];
  }

  // The marks of line number i, whose points are the data set `line${i}`.
  function marks(line, i) {
    const data = `line${i}`, [across, up] = shift(line);
    const x = { field: "x", scale: "x", offset: across }, place = { x, y: { field: "y", scale: "y", offset: up } };
    const stroke = { stroke: { value: line.color }, strokeWidth: { value: line.width * SCALE }, strokeDash: { value: pixels(line.dashes) ?? [] } };
    const defined = { signal: "isNumber(datum.y)" }, common = { from: { data }, clip: true, zindex: line.order };
    if (line.at_x !== undefined || line.at_y !== undefined) {
      const ends = line.at_x === undefined
        ? { y: { value: line.at_y, scale: "y" }, x: { value: 0 }, x2: { signal: "width" } }
        : { x: { value: line.at_x, scale: "x" }, y: { value: 0 }, y2: { signal: "height" } };
      return [{ type: "rule", ...common, encode: { update: { ...ends, ...stroke } } }];
    }
    const found = [], end = (field) => ({ field, scale: "y", offset: up }), ends = { y: end("low"), y2: end("high") };
    if (line.low && line.bars) {
      const bars = { ...place, ...ends, stroke: stroke.stroke, strokeWidth: { value: 1.2 }, opacity: { signal: "isNumber(datum.low) ? 1 : 0" } };
      found.push({ type: "rule", ...common, encode: { update: bars } });
    } else if (line.low) {
      const band = { ...place, ...ends, fill: stroke.stroke, fillOpacity: { value: 0.2 }, defined: { signal: "isNumber(datum.low) && isNumber(datum.high)" } };
      found.push({ type: "area", ...common, encode: { update: band } });
    }
    if (line.width) {
      const path = { ...place, ...stroke, defined, interpolate: { value: line.steps ?? "linear" } };
      found.push({ type: "line", ...common, encode: { update: path } });
    }
    if (line.marker) {
      const size = { value: (line.size * SCALE) ** 2 }, [first, step] = line.every;
      const look = {
        ...place, size, shape: { value: shape(line) }, stroke: stroke.stroke, fill: line.hollow ? { value: null } : stroke.stroke, strokeWidth: { value: line.hollow ? 1.2 : 0.3 },
        opacity: { signal: `isNumber(datum.y) && datum.i >= ${first} && (datum.i - ${first}) % ${step} === 0 ? 1 : 0` },
      };
      found.push({ type: "symbol", ...common, encode: { update: look } });
    }
    return found;
  }

  function background({ areas, spans }) {
    const fill = ({ color, opacity }) => ({ fill: { value: color }, fillOpacity: { value: opacity } });
    const edges = (name, ends, size) => (ends
      ? { [name]: { value: ends[0], scale: name }, [`${name}2`]: { value: ends[1], scale: name } }
      : { [name]: { value: 0 }, [`${name}2`]: { signal: size } });
    return [
      ...spans.map((span) => ({ type: "rect", clip: true, encode: { update: { ...edges("x", span.x, "width"), ...edges("y", span.y, "height"), ...fill(span) } } })),
      ...areas.map((area, i) => ({
        type: "area", clip: true, from: { data: `area${i}` },
        encode: { update: { x: { field: "x", scale: "x" }, y: { field: "low", scale: "y" }, y2: { field: "high", scale: "y" }, ...fill(area) } },
      })),
    ];
  }

  // Texts stand above the lines that they cross, with a white edge, which the first of two marks draws.
  function notes({ texts }) {
    return texts.flatMap(({ text, x, y, align, baseline, color }) => {
      const lines = text.split("\n"), room = 6 * Math.max(...lines.map((one) => one.length));
      const common = { // in a narrow panel, a text ends at the right edge
        text: { value: lines }, x: { signal: align === "left" ? `min(${x} * width, width - ${room})` : `${x} * width` }, y: { signal: `${1 - y} * height` },
        align: { value: align }, baseline: { value: baseline }, fill: { value: color }, fontSize: { value: 11 },
      };
      const edge = { stroke: { value: "#fff" }, strokeWidth: { value: 3 } };
      return [edge, {}].map((more) => ({ type: "text", zindex: 9, encode: { update: { ...common, ...more } } }));
    });
  }

  // Vega's specification of a panel, without its width and height. Panels of a figure leave equal
  // room for the labels of their vertical axes, so that the horizontal axes stand in line.
  function specification(panel, panels, title) {
    const lines = (one) => one.y.label.split("\n"), most = Math.max(...panels.map((one) => lines(one).length));
    const room = 7 * Math.max(...panels.flatMap(({ y }) => y.ticks.map(([, text]) => text.length))) + 8;
    const yTitle = title ? [...Array(most - lines(panel).length).fill(""), ...lines(panel)] : "";
    const positive = (axis) => (value) => (axis.scale === "log" && value !== null ? Math.max(value, NEARLY_ZERO) : value);
    const rows = (line) => {
      const [x, y] = [positive(panel.x), positive(panel.y)];
      return (line.x ?? [0]).map((place, i) => ({ i, x: x(place), y: y(line.y?.[i] ?? null), low: y(line.low?.[i] ?? null), high: y(line.high?.[i] ?? null) }));
    };
    const scale = (name, range) => ({ name, type: panel[name].scale, domain: name === "y" ? { signal: "yLimits" } : panel.x.limits, range, zero: false, nice: false });
    const labels = (name) => ({ name: `${name}Labels`, value: Object.fromEntries(panel[name].ticks) });
    const near = (field) => ({ field, scale: field, offset: { field: `${field}Shift` } });
    const ring = { x: near("x"), y: near("y"), size: { value: 150 }, stroke: { field: "color" }, strokeWidth: { value: 2.5 }, fill: { value: null } };
    const order = panel.lines.map((line, i) => [line.order, i]).sort(([a, i], [b, j]) => a - b || i - j);
    return {
      autosize: { type: "fit", contains: "padding" }, padding: { left: 2, right: 14, top: 6, bottom: 4 },
      title: panel.title ? { text: panel.title.split("\n"), fontSize: 14, fontWeight: "normal", frame: "group", offset: 6 } : undefined,
      signals: [{ name: "hidden", value: [] }, labels("x"), labels("y"), ...Object.entries(frame(panel)).map(([name, value]) => ({ name, value }))],
      data: [
        ...panel.lines.map((line, i) => ({ name: `line${i}`, values: rows(line), transform: [{ type: "filter", expr: `!hidden[${i}]` }] })),
        ...panel.areas.map((area, i) => ({ name: `area${i}`, values: rows({ ...area, y: area.low }) })),
        { name: "near", values: [] },
      ],
      scales: [scale("x", "width"), scale("y", "height")],
      axes: [...axis("x", panel.x, panel.x.label.split("\n")), ...axis("y", panel.y, yTitle, room)],
      marks: [
        { type: "rect", encode: { update: { x: { value: 0 }, y: { value: 0 }, x2: { signal: "width" }, y2: { signal: "height" }, stroke: { value: "#555" }, fill: { value: null } } } },
        ...background(panel),
        ...order.flatMap(([, i]) => marks(panel.lines[i], i)),
        ...notes(panel),
        { type: "symbol", from: { data: "near" }, encode: { update: ring } },
      ],
    };
  }

  // The vertical limits and ticks of a panel. If curves are hidden, the frame fits the others.
  function frame({ y }) {
    const limits = y.shown ?? y.limits, inside = (place) => within(place, limits);
    const ticks = y.ticks.map(([place]) => place).filter(inside);
    return { yLimits: limits, yTicks: ticks.length > 1 ? ticks : automatic(limits, y.scale), yMinor: y.minor.filter(inside) };
  }

  function automatic(limits, scale) {
    const [low, high] = [Math.min(...limits), Math.max(...limits)];
    const step = 10 ** Math.floor(Math.log10((high - low) / 2));
    const size = [5, 2, 1].map((times) => times * step).find((one) => (high - low) / one >= 2) ?? step;
    const first = Math.ceil(low / size), places = Array.from({ length: Math.floor(high / size) - first + 1 }, (_, i) => (first + i) * size);
    return places.filter((place) => scale !== "log" || place > 0);
  }

  // The limits for the curves that are shown, in all panels that share their vertical axis.
  function fitted(panel, panels, hidden) {
    const { limits, label, scale } = panel.y;
    const sharing = panels.filter(({ y }) => y.label === label && String(y.limits) === String(limits));
    const lines = sharing.flatMap((one) => one.lines).filter((line) => line.role === "curve");
    const shown = lines.filter((line) => !hidden.has(line.name));
    const values = shown.flatMap((line) => line.y ?? []).filter((value) => value !== null && within(value, limits));
    if (shown.length === lines.length || !values.length) return limits;
    const [to, from] = scale === "log" ? [Math.log, Math.exp] : [(x) => x, (x) => x];
    const [low, high] = [to(Math.min(...values)), to(Math.max(...values))], room = Math.max(0.08 * (high - low), 0.02 * Math.abs(to(limits[1]) - to(limits[0])));
    const ends = [Math.max(from(low - room), Math.min(...limits)), Math.min(from(high + room), Math.max(...limits))];
    return limits[0] < limits[1] ? ends : ends.reverse();
  }

  // A figure: its panels in a grid, a box with the numbers of a point, and the legend.
  function draw(holder, description, name) {
    const { panels, legend } = description, hidden = new Set();
    const grid = element("div", { className: "panels" });
    const told = element("div", { className: "told", hidden: true });
    told.setAttribute("role", "status");
    const list = element("ul", { className: "keys" });
    list.setAttribute("aria-label", "Legend: press a curve to hide or show it");
    const live = element("div", { className: "live" }, list, grid, told);
    live.setAttribute("role", "group");
    live.setAttribute("aria-label", `Interactive figure: ${name}`);
    holder.append(live);
    holder.classList.add("is-live");
    const units = panels.map((panel) => ({ panel, box: element("div", { className: "panel", tabIndex: 0 }) }));
    grid.append(...units.map(({ box }) => box));
    // An upper panel may leave the label of its horizontal axis to the panel below.
    for (const { x } of panels) {
      x.label ||= panels.find((other) => other.x.label && String(other.x.limits) === String(x.limits))?.x.label ?? "x";
    }

    function show(unit, points) {
      for (const other of units) other.view?.data("near", other === unit ? points.slice(0, 1).map(({ line, x, y }) => ({ x, y, color: line.color, xShift: shift(line)[0], yShift: shift(line)[1] })) : []).runAsync();
      told.hidden = !points.length;
      if (!points.length) return;
      told.replaceChildren(...tell(unit.panel, points));
      const [left, top] = placing(unit)(points[0]), frame = live.getBoundingClientRect();
      const [x, y] = [left - frame.left, top - frame.top];
      const beside = x + 14 + told.offsetWidth > frame.width ? x - 14 - told.offsetWidth : x + 14;
      told.style.left = `${Math.max(0, Math.min(beside, frame.width - told.offsetWidth))}px`;
      // Below the point on a narrow page, where the box would cover it.
      told.style.top = `${beside < 0 ? y + 14 : Math.max(0, y - told.offsetHeight / 2)}px`;
    }

    // A function that returns the place of a point in the window, in pixels.
    function placing({ view, box }) {
      const { left, top } = box.querySelector("svg").getBoundingClientRect(), origin = view.origin();
      const x = view.scale("x"), y = view.scale("y");
      return (point) => {
        const [across, down] = shift(point.line);
        return [left + origin[0] + x(point.x) + across, top + origin[1] + y(point.y) + down];
      };
    }

    const roles = ["curve", "bound", "guide", ""];
    const askable = ({ panel }) => panel.lines.filter((line) => !hidden.has(line.name))
      .sort((one, other) => roles.indexOf(one.role) - roles.indexOf(other.role)).map((line) => pointsOf(line, panel)).filter((points) => points.length);

    function ask(unit, event) {
      if (!unit.view) return;
      const place = placing(unit), places = askable(unit).flat().map((point) => [point, ...place(point)]);
      // Measured points come before lines of theory through them.
      const distance = ([{ line }, a, b]) => Math.hypot(a - event.clientX, b - event.clientY) + (line.role === "curve" ? 0 : TOGETHER);
      const nearest = places.reduce((best, one) => (distance(one) < distance(best) ? one : best), places[0]);
      if (!nearest || distance(nearest) > REACH) return show(unit, []);
      const [point, a, b] = nearest;
      const others = places.filter(([{ line }, c, d]) => line !== point.line && line.role !== "guide" && Math.hypot(a - c, b - d) < TOGETHER);
      show(unit, [point, ...others.slice(0, 3).map(([other]) => other)]);
    }

    // Arrow keys: to the next point of a line, or to the next line.
    function step(unit, event) {
      const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      if (event.key === "Escape") show(unit, []);
      if (!moves[event.key] || !unit.view) return;
      event.preventDefault();
      const lines = askable(unit), [across, along] = moves[event.key];
      if (!lines.length) return;
      const old = unit.at ?? [0, along > 0 ? -1 : 0];
      const line = Math.max(0, Math.min(old[0] + across, lines.length - 1));
      const at = Math.max(0, Math.min(old[1] + along, lines[line].length - 1));
      unit.at = [line, at];
      show(unit, [lines[line][at]]);
    }

    for (const unit of units) {
      unit.box.addEventListener("pointermove", (event) => ask(unit, event));
      unit.box.addEventListener("pointerdown", (event) => ask(unit, event));
      unit.box.addEventListener("pointerleave", () => show(unit, []));
      unit.box.addEventListener("blur", () => show(unit, []));
      unit.box.addEventListener("keydown", (event) => step(unit, event));
    }

    function update() {
      for (const { panel } of units) panel.y.shown = fitted(panel, panels, hidden);
      for (const { panel, view } of units) {
        for (const [signal, value] of Object.entries(frame(panel))) view?.signal(signal, value);
        view?.signal("hidden", panel.lines.map((line) => hidden.has(line.name))).runAsync();
      }
      for (const [curve, button] of buttons) button.setAttribute("aria-pressed", String(!hidden.has(curve)));
      show(units[0], []);
    }
    const buttons = legend.map((curve) => {
      // Of the lines with this name the thinnest: a line that others cover is widened.
      const line = panels.flatMap((panel) => panel.lines).filter((one) => one.name === curve)
        .reduce((thin, one) => (one.width < thin.width ? one : thin));
      const onclick = () => { hidden.delete(curve) || hidden.add(curve); update(); };
      return [curve, element("button", { type: "button", title: "Hide or show", onclick }, swatch(line), element("span", {}, curve))];
    });
    const both = [["show all", []], ["hide all", legend]].map(([text, names]) => element("button", {
      type: "button", className: "every", onclick: () => { hidden.clear(); names.forEach((curve) => hidden.add(curve)); update(); },
    }, text));
    const entries = [...buttons.map(([, button]) => [button]), ...(legend.length > 3 ? [both] : [])];
    list.append(...entries.map((entry) => element("li", {}, ...entry)));

    // Panels of equal heights stand in one row if the page is wide enough, with the caption below.
    const even = description.columns > 1 && panels.every(({ height }) => Math.abs(height - panels[0].height) < 0.1);
    const whole = holder.parentNode, need = panels.length * PANEL_WIDTH;
    let columns = 0;
    function resize() {
      whole.classList.toggle("wide", even && panels.length > description.columns && need <= whole.clientWidth);
      const width = grid.clientWidth;
      if (!width) return; // in a run that is folded
      const fit = even && need <= width ? panels.length : Math.max(1, Math.min(description.columns, Math.floor(width / PANEL_WIDTH)));
      if (fit !== columns) {
        columns = fit;
        grid.style.gridTemplateColumns = `repeat(${fit}, minmax(0, 1fr))`;
        units.forEach((unit, i) => { build(unit, i); });
      }
      for (const { panel, box, view } of units) {
        const across = box.clientWidth, high = Math.max(panel.height * across, panel.height < 0.3 ? 170 : 230);
        view.width(across).height(Math.round(Math.min(high, 420)) + 40).runAsync();
      }
    }

    function build(unit, i) {
      const { panel, box } = unit, left = i % columns ? panels[i - 1] : undefined;
      unit.view?.finalize();
      box.replaceChildren();
      const spec = specification(panel, panels, left?.y.label !== panel.y.label);
      spec.description = `${panel.title || name}: ${words(panel.y.label)} against ${words(panel.x.label)}; arrow keys read the points`;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", spec.description);
      const font = getComputedStyle(box).fontFamily;
      const config = { font, title: { font }, axis: { labelFont: font, titleFont: font }, text: { font } };
      const runtime = vega.parse(spec, config, { ast: true });
      // The interpreter needs no eval, which the page's policy forbids.
      unit.view = new vega.View(runtime, { container: box, renderer: "svg", hover: false, expr: vega.expressionInterpreter, logLevel: vega.Warn });
      unit.view.signal("hidden", panel.lines.map((line) => hidden.has(line.name)));
    }

    update();
    new ResizeObserver(resize).observe(grid);
    resize();
  }

  // A page that is one file holds the library compressed; the policy names the text's digest.
  async function unpack(packed) {
    if (!packed) return;
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    document.head.append(element("script", { textContent: await new Response(stream).text() }));
  }

  const observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      const name = target.querySelector("img")?.alt || target.querySelector("svg")?.ariaLabel || "figure";
      draw(target, JSON.parse(target.querySelector("script").textContent), name);
    }
  }, { rootMargin: "600px" });
  unpack(document.getElementById("library")).then(() => {
    document.querySelectorAll(".interactive").forEach((figure) => observer.observe(figure));
  });
}
