"use strict";
{
  // The formulas of dpbench/planner/prediction.py, in the browser. `plan` holds the problem.
  const plan = JSON.parse(document.querySelector("#numbers").textContent);
  const SUM_POINTS = 2 ** 14, COARSE = 8, MAX_RECORDS = 1e15;
  const sum = (array, f) => array.reduce((total, x, i) => total + f(x, i), 0);

  function interpolate(x, xs, ys) {
    let low = 0, high = xs.length - 1;
    if (x <= xs[low] || x >= xs[high]) return x <= xs[low] ? ys[low] : ys[high];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle; else high = middle;
    }
    return ys[low] + (ys[high] - ys[low]) * (x - xs[low]) / (xs[high] - xs[low]);
  }

  /** Return a root of an increasing function, by false position (Illinois). */
  function solve(f, low, high) {
    let atLow = f(low), atHigh = f(high), side = 0;
    for (let i = 0; i < 200 && high - low > 1e-7 * high; i++) {
      const share = i % 3 === 2 ? 0.5 : atLow / (atLow - atHigh);
      const x = low + (high - low) * share, y = f(x);
      if (Math.abs(y) < 1e-9) return x;
      if (y < 0) { low = x; atLow = y; if (side < 0) atHigh /= 2; side = -1; }
      else { high = x; atHigh = y; if (side > 0) atLow /= 2; side = 1; }
    }
    return (low + high) / 2;
  }

  /** Return a minimum of f on [low, high], by golden sections. */
  function minimise(f, low, high, precision) {
    const golden = (Math.sqrt(5) - 1) / 2;
    let a = high - golden * (high - low), b = low + golden * (high - low), fa = f(a), fb = f(b);
    while (high - low > precision) {
      if (fa <= fb) { high = b; b = a; fb = fa; a = high - golden * (high - low); fa = f(a); }
      else { low = a; a = b; fa = fb; b = low + golden * (high - low); fb = f(b); }
    }
    return fa <= fb ? a : b;
  }

  /** Return exp(x^2) erfc(x) for x >= 0: a power series, from 2 on a continued fraction. */
  function erfcx(x) {
    if (x >= 2) {
      let fraction = x;
      for (let k = Math.ceil(8 + 300 / (x * x)); k > 0; k--) fraction = x + k / 2 / fraction;
      return 1 / fraction / Math.sqrt(Math.PI);
    }
    let term = x, series = x; // erf(x) = 2/sqrt(pi) e^(-x^2) sum_k x (2 x^2)^k/(2k + 1)!!
    for (let k = 1; term > 1e-17 * series; k++) series += term *= 2 * x * x / (2 * k + 1);
    return Math.exp(x * x) - 2 / Math.sqrt(Math.PI) * series;
  }
  const upperTail = (z) => z < 0 ? 1 - upperTail(-z) : z > 9 ? 0 : Math.exp(-z * z / 2) * erfcx(z / Math.SQRT2) / 2;

  /** Return P(N(0, sd^2) + Z <= x) for the noise Z. */
  function cdf(x, noise, sd) {
    if (x < 0) return 1 - cdf(-x, noise, sd);
    if (!noise.laplace) return 1 - upperTail(x / Math.hypot(noise.scale, sd));
    if (sd < 1e-6 * noise.scale) return 1 - Math.exp(-x / noise.scale) / 2;
    const t = x / sd, r = sd / noise.scale, density = Math.exp(-t * t / 2);
    const right = r > t ? density * erfcx((r - t) / Math.SQRT2) / 2
      : Math.exp(r * r / 2 - r * t) * upperTail(r - t);
    return 1 - upperTail(t) - (right - density * erfcx((r + t) / Math.SQRT2) / 2) / 2;
  }

  /** Return the smallest sd of Gaussian noise that is (epsilon, delta)-DP (noise.py, _gaussian_sd). */
  function analyticSd(epsilon, delta) {
    return solve((s) => {
      const a = (epsilon * s - 0.5 / s) / Math.SQRT2, b = (epsilon * s + 0.5 / s) / Math.SQRT2;
      return Math.log(delta) - (a > 0 ? Math.log((erfcx(a) - erfcx(b)) / 2) - a * a
        : Math.log(upperTail(a * Math.SQRT2) - Math.exp(-a * a) * erfcx(b) / 2));
    }, 0.01 / Math.sqrt(1 + epsilon), 10 * Math.sqrt(Math.log(2 / delta)) / Math.min(epsilon, 1));
  }

  /** Return the noise at sensitivity 1; of Laplace and Gaussian noise the quieter. */
  function noiseOf(amount, delta) {
    if (plan.key === "rho") return { scale: 1 / Math.sqrt(2 * amount) };
    if (plan.key === "mu") return { scale: 1 / amount };
    const gaussian = delta ? analyticSd(amount, delta) : Infinity;
    const laplace = Math.SQRT2 / amount <= gaussian;
    return { laplace, scale: laplace ? 1 / amount : gaussian };
  }
  const scaled = (noise, factor) => ({ ...noise, scale: noise.scale * factor });
  const isf = (noise, p) => noise.scale * (noise.laplace ? -Math.log(2 * p)
    : solve((z) => p - upperTail(z), 0, 40));

  /** Return the 0.9 quantile of |V + bias + Z|; V is normal (`sd`), or has values with weights. */
  function quantile(v, bias, noise) {
    const covered = v.values
      ? (x) => sum(v.values, (value, i) => v.weights[i]
        * (cdf(x - value - bias, noise, 0) - cdf(-x - value - bias, noise, 0)))
      : (x) => cdf(x - bias, noise, v.sd) - cdf(-x - bias, noise, v.sd);
    const reach = v.values ? Math.max(-v.values[0], v.values.at(-1)) : 10 * v.sd;
    return solve((x) => covered(x) - 0.9, 0, isf(noise, 0.0125) + reach + Math.abs(bias));
  }

  function samplingQuantile(v) {
    if (!v.values) return plan.normal_quantile * v.sd;
    const order = v.values.map((value, i) => [Math.abs(value), v.weights[i]]);
    let total = 0;
    return order.sort((a, b) => a[0] - b[0]).find(([, weight]) => (total += weight) >= 0.9)[0];
  }

  function binomial(n, p, unit) {
    const spread = Math.sqrt(n * p * (1 - p)), reach = 10 * spread + 30;
    const low = Math.max(0, Math.floor(n * p - reach)), high = Math.min(n, Math.ceil(n * p + reach));
    if (high - low >= 4001) return { sd: unit * spread / n };
    const values = [], logs = [0];
    for (let s = low; s <= high; s++) {
      values.push(unit * (s / n - p));
      logs.push(logs.at(-1) + Math.log((n - s) / (s + 1) * p / (1 - p)));
    }
    const top = logs.slice(0, -1).reduce((a, b) => Math.max(a, b));
    const weights = values.map((_, i) => Math.exp(logs[i] - top)), total = sum(weights, (w) => w);
    return { values, weights: weights.map((w) => w / total) };
  }

  const angles = Array.from({ length: SUM_POINTS / 2 }, (_, i) => 2 * Math.PI * i / SUM_POINTS);
  const cosines = Float64Array.from(angles, Math.cos), sines = Float64Array.from(angles, Math.sin);

  /** Transform `SUM_POINTS` complex numbers in place by the fast Fourier transform. */
  function transform(re, im) {
    const n = re.length;
    for (let i = 1, j = 0; i < n; i++) {
      let bit = n >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) { [re[i], re[j]] = [re[j], re[i]]; [im[i], im[j]] = [im[j], im[i]]; }
    }
    for (let half = 1; half < n; half *= 2) {
      const stride = n / (2 * half);
      for (let from = 0; from < n; from += 2 * half) {
        for (let k = 0; k < half; k++) {
          const c = cosines[k * stride], s = -sines[k * stride];
          const i = from + k, j = i + half, x = re[j] * c - im[j] * s, y = re[j] * s + im[j] * c;
          re[j] = re[i] - x; im[j] = im[i] - y; re[i] += x; im[i] += y;
        }
      }
    }
  }

  /** Return the deviation of an average of n values from its mean (averages.py, average_of_few). */
  function average(values, weights, n, variance) {
    const cumulate = (array) => { let total = 0; return array.map((w) => total += w); };
    const below = cumulate(weights), above = cumulate(weights.toReversed()).reverse();
    const inside = values.map((_, i) => n * Math.min(below[i], above[i]) > 1e-5);
    const lost = sum(weights, (w, i) => inside[i] ? 0 : w);
    const keep = () => {
      values = values.filter((_, i) => inside[i]);
      weights = weights.filter((_, i) => inside[i]).map((w) => w / (1 - lost));
    };
    if (inside.filter(Boolean).length === 2 && n * lost < 1e-6 * weights.length) keep();
    if (values.length === 1) return { values: [0], weights: [1] };
    if (values.length === 2) return binomial(n, weights[1], values[1] - values[0]);
    const moment = (unit) => (k) => sum(weights, (w, i) => w * ((values[i] - mean) / unit) ** k);
    let mean = sum(weights, (w, i) => w * values[i]);
    const sd = Math.sqrt(moment(1)(2) / n), m = moment(n * Math.hypot(sd, Math.sqrt(variance)));
    if (n * Math.max(Math.abs(m(3)), Math.abs(m(4) - 3 * m(2) ** 2)) <= 0.02) return { sd };
    if (values.length === inside.length) keep();
    mean = sum(weights, (w, i) => w * values[i]);
    return convolve(values, weights, n, mean, moment(1)(2));
  }

  function convolve(values, weights, n, mean, variance) {
    const low = values[0], high = values.at(-1);
    if (!(low < high)) return { values: [0], weights: [1] };
    const reach = 9 * Math.sqrt(n * variance) + 5 * Math.max(high - mean, mean - low);
    const cells = Math.ceil((high - low) * SUM_POINTS / (2 * reach)), step = (high - low) / cells;
    const re = new Float64Array(SUM_POINTS), im = new Float64Array(SUM_POINTS);
    values.forEach((value, i) => {
      const at = (value - low) / step, left = Math.min(Math.floor(at), cells - 1);
      re[left] += weights[i] * (left + 1 - at);
      re[left + 1] += weights[i] * (at - left);
    });
    transform(re, im);
    re.forEach((x, i) => {
      const size = (x * x + im[i] * im[i]) ** (n / 2), angle = -n * Math.atan2(im[i], x);
      re[i] = size * Math.cos(angle); // the conjugate, so that the same transform inverts it
      im[i] = size * Math.sin(angle);
    });
    transform(re, im);
    const first = Math.trunc(n * (mean - low) / step) - SUM_POINTS / 2;
    const shift = ((first % SUM_POINTS) + SUM_POINTS) % SUM_POINTS, points = [], shares = [];
    for (let i = 0; i < SUM_POINTS; i += COARSE) {
      let share = 0, offset = 0;
      for (let j = i; j < i + COARSE; j++) {
        const weight = Math.max(re[(j + shift) % SUM_POINTS], 0);
        share += weight;
        offset += weight * ((first + j) * step / n - (mean - low));
      }
      if (share > 1e-300) { points.push(offset / share); shares.push(share); }
    }
    const total = sum(shares, (w) => w), centre = sum(points, (x, i) => x * shares[i]) / total;
    const found = Math.sqrt(sum(points, (x, i) => (x - centre) ** 2 * shares[i]) / total);
    const stretch = Math.sqrt(variance / n) / found;
    return { values: points.map((x) => (x - centre) * stretch), weights: shares.map((w) => w / total) };
  }

  /** A known distribution, as weighted points. */
  function known(values, weights, target, low, high) {
    let total = 0;
    const levels = weights.map((w) => (total += w) - w / 2);
    const clipAt = (outside) => [
      Math.max(interpolate(outside, levels, values), low),
      Math.min(interpolate(1 - outside, levels, values), high),
    ];
    function error([a, b], n, unit) {
      const clipped = values.map((x) => Math.min(Math.max(x, a), b)), noise = scaled(unit, (b - a) / n);
      const merged = [], shares = [];
      clipped.forEach((x, i) => { // atoms beyond an end become one
        if (merged.length && merged.at(-1) === x) shares[shares.length - 1] += weights[i];
        else { merged.push(x); shares.push(weights[i]); }
      });
      const v = average(merged, shares, n, noise.scale ** 2 * (noise.laplace ? 2 : 1));
      const bias = sum(weights, (w, i) => w * clipped[i]) - target;
      const added = sum(weights, (w, i) => w * Math.abs(values[i] - clipped[i]));
      return { noise: isf(noise, 0.05), bias, get sampling() { return samplingQuantile(v); },
        get q90() { return quantile(v, bias, noise); },
        get guarded() { return quantile(v, bias >= 0 ? added : -added, noise); } };
    }
    function bestClip(n, unit) {
      const cost = (logTail) => {
        const clip = clipAt(Math.exp(logTail));
        return clip[0] < clip[1] ? error(clip, n, unit).guarded : Infinity;
      };
      const start = Math.min(Math.log(isf(unit, 0.05) / n), -3) - 7, end = Math.log(0.49);
      const tails = Array.from({ length: 12 }, (_, i) => start + (end - start) * i / 11);
      const costs = tails.map(cost), best = costs.indexOf(Math.min(...costs));
      const x = minimise(cost, tails[Math.max(best - 1, 0)], tails[Math.min(best + 1, 11)], 0.0005);
      return clipAt(Math.exp(cost(x) <= costs[best] ? x : tails[best]));
    }
    return { error, bestClip, mean: target };
  }

  /** All distributions with a bounded k-th moment. */
  function moment({ k, scale, low, high }) {
    const worst = (t) => ((k - 1) / k) ** (k - 1) / k * t ** -(k - 1);
    function error([a, b], n, unit) {
      const t = Math.min(low - a, b - high) / scale, v = { sd: scale / Math.sqrt(n) };
      const noise = scaled(unit, (b - a) / n), bias = t > 0 ? scale * worst(t) : Infinity;
      const q90 = t > 0 ? quantile(v, bias, noise) : Infinity;
      return { q90, guarded: q90, bias, sampling: samplingQuantile(v), noise: isf(noise, 0.05) };
    }
    function bestClip(n, unit) {
      const radius = (high - low) / (2 * scale), none = { values: [0], weights: [1] };
      const cost = (logT) => quantile(none, worst(Math.exp(logT)),
        scaled(unit, 2 * (radius + Math.exp(logT)) / n));
      const half = scale * (radius + Math.exp(minimise(cost, -5, Math.log(n) + 10, 1e-4)));
      return [(low + high) / 2 - half, (low + high) / 2 + half];
    }
    return { error, bestClip };
  }

  const grid = (count, x) => Array.from({ length: count }, (_, i) => x(i));
  const normal = (x, mean) => {
    const z = grid(4001, (i) => -10 + i / 200);
    return [z.map(x), z.map((y) => Math.exp(-y * y / 2)), mean];
  };

  /** Points, weights and mean of standard distributions (averages.py). */
  const shapes = {
    bernoulli: ({ p }) => [[0, 1], [1 - p, p], p],
    two_point({ p, k }) {
      const tau = (p * (1 - p) * ((1 - p) ** (k - 1) + p ** (k - 1))) ** (-1 / k);
      return plan.sign > 0 ? [[0, tau], [1 - p, p], p * tau] : [[-tau, 0], [p, 1 - p], -p * tau];
    },
    gaussian: () => normal((z) => z, 0),
    log_normal: ({ sigma }) => normal((z) => Math.exp(sigma * z), Math.exp(sigma * sigma / 2)),
    student_t({ tail_index: nu }) {
      const t = grid(16004, (i) => Math.sinh(-40 + 80 * i / 16003));
      return [t, t.map((x) => Math.exp(-(nu + 1) / 2 * Math.log1p(x * x / nu)) * Math.sqrt(1 + x * x)), 0];
    },
    pareto({ tail_index: a }) {
      const y = grid(16004, (i) => (i + 0.5) * 10 / 4001);
      return [y.map((x) => Math.exp(x / a) - a / (a - 1)), y.map((x) => Math.exp(-x)), 0];
    },
  };

  /** Return points that stand for others, at most 2,000, and their probabilities. */
  function merge(values, weights) {
    const total = sum(weights, (w) => w), merged = [], shares = [];
    const likely = values.map((_, i) => i).filter((i) => weights[i] / total > 1e-18);
    const size = Math.ceil(likely.length / 2000);
    for (let from = 0; from < likely.length; from += size) {
      const cell = likely.slice(from, from + size), share = sum(cell, (i) => weights[i]);
      merged.push(sum(cell, (i) => weights[i] * values[i]) / share);
      shares.push(share / total);
    }
    return [merged, shares];
  }

  /** Return the distribution with these parameters; one without a formula is moved and scaled. */
  function distribution({ location = 0, scale = 1, ...shape }) {
    const move = (x) => location + scale * x;
    if (shapes[plan.law]) {
      const [values, weights, mean] = shapes[plan.law](shape), [merged, shares] = merge(values, weights);
      return known(merged.map(move), shares, move(mean), ...plan.ends);
    }
    const from = { location: 0, scale: 1, ...plan.parameters };
    const moved = (x) => move((x - from.location) / from.scale);
    return known(plan.values.map(moved), plan.weights, moved(plan.target), ...plan.ends);
  }

  const coin = ([a, b]) => ({ ...known([a, b], [0.5, 0.5], (a + b) / 2, a, b), bestClip: () => [a, b] });
  const names = Object.keys(plan.parameters);
  let problem = null, described = "";

  /** Return the problem of these inputs; a distribution is kept until a parameter changes. */
  function problemOf(inputs) {
    if (plan.kind === "records") return coin([inputs.lower, inputs.upper]);
    if (plan.kind === "moment") return problem ??= moment(plan);
    const parameters = Object.fromEntries(names.map((name) => [name, inputs[name]]));
    if (JSON.stringify(parameters) !== described) problem = distribution(parameters);
    described = JSON.stringify(parameters);
    return problem;
  }

  function roundOutwards([a, b]) {
    const unit = 10 ** (Math.floor(Math.log10(b - a)) - 2), [low, high] = plan.ends;
    const end = (x, round) => Number((round(x / unit) * unit).toPrecision(12));
    return [Math.max(end(a, Math.floor), low), Math.min(end(b, Math.ceil), high)];
  }

  /** Return the smallest n with an error of at most alpha; Infinity if there is none. */
  function records(problem, alpha, n, noise) {
    const excess = (size) => Math.log(problem.error(problem.bestClip(size, noise), size, noise).q90 / alpha);
    let low = n, high = n;
    if (excess(n) > 0) {
      if (excess(MAX_RECORDS) > 0) return Infinity;
      while (excess(high) > 0) { low = high; high = Math.min(4 * high, MAX_RECORDS); }
    }
    while (low > 1 && excess(low) <= 0) { high = low; low = Math.max(Math.floor(low / 4), 1); }
    let below = excess(low), above = excess(high);
    if (below <= 0) return 1;
    for (let turn = 0; high - low > 1; turn++) {
      const share = turn % 2 === 0 && Number.isFinite(below) ? below / (below - above) : 0.5;
      const size = Math.min(Math.max(Math.round(low * (high / low) ** share), low + 1), high - 1);
      const y = excess(size);
      if (y > 0) { low = size; below = y; } else { high = size; above = y; }
    }
    return high;
  }

  const find = (selector) => document.querySelector(selector);
  const short = (x) => Number.isFinite(x) ? String(Number(x.toPrecision(3))) : "none";
  const keys = Object.keys(plan.sliders), fixed = plan.kind !== "records";
  const read = () => Object.fromEntries([...keys, "alpha"].map((key) => [key, find(`#${key}`).valueAsNumber]));
  let timer = 0, best = [];

  function show(row, error, clip) {
    find(`#${row} .clip`).dataset.value = JSON.stringify(clip);
    find(`#${row} .clip`).textContent = `[${clip.map((end) => Number(end.toPrecision(6))).join(", ")}]`;
    for (const part of ["q90", "sampling", "bias", "noise"]) {
      const cell = find(`#${row} .${part}`), value = error[part];
      cell.dataset.value = value;
      cell.textContent = short(Math.abs(value) < 1e-6 * error.q90 ? 0 : value);
    }
  }

  /** Return what is wrong with delta or a parameter of the distribution, or an empty text. */
  function outside(inputs) {
    for (const [key, [from, to]] of Object.entries(plan.limits)) {
      if (!(inputs[key] > from && inputs[key] < to)) return `${key}: write a number between ${from} and ${to}`;
    }
    const mean = names.length && problemOf(inputs).mean, [low, high] = plan.ends;
    return names.length && !(low < mean && mean < high) ? `the mean, ${short(mean)}, is not within the bounds` : "";
  }

  function update() {
    const inputs = read(), { n, amount, delta, lower, upper, alpha } = inputs;
    clearTimeout(timer);
    find("#records").textContent = "…";
    for (const cell of [find("#records"), find("#best .clip")]) delete cell.dataset.value;
    const wrong = !(n >= 1 && n <= MAX_RECORDS && Number.isInteger(n)) ? "n: write a whole number from 1 on"
      : !(amount > 0) ? `${plan.key}: write a number above 0`
        : !(lower < upper) ? "upper: must exceed lower" : !(alpha > 0) ? "error: write a number above 0"
          : outside(inputs);
    find("#wrong").textContent = wrong;
    if (wrong) return;
    const noise = noiseOf(amount, delta), problem = problemOf(inputs);
    const error = problem.error([lower, upper], n, noise);
    show("yours", error, [lower, upper]);
    const parts = ["sampling", "bias", "noise"].map((part) => [part, Math.abs(error[part])]);
    const most = Math.max(...parts.map(([, size]) => size).filter(Number.isFinite));
    for (const [part, size] of parts) find(`#bar-${part}`).style.width = `${100 * Math.min(size / most, 1)}%`;
    timer = setTimeout(() => { // a slider that moves on is not held up by the searches
      best = fixed ? roundOutwards(problem.bestClip(n, noise)) : [lower, upper];
      show("best", problem.error(best, n, noise), best);
      timer = setTimeout(() => {
        const needed = records(problem, alpha, n, noise);
        find("#records").dataset.value = needed;
        find("#records").textContent = Number.isFinite(needed) ? needed.toLocaleString("en") : "no number suffices";
      }, 300);
    }, 100);
  }

  // A slider has 1,000 steps, on a log scale for n and the budget.
  for (const key of keys) {
    const box = find(`#${key}`), slider = find(`#${key}-slider`), [from, to] = plan.sliders[key];
    const log = plan.logarithmic.includes(key);
    const place = () => {
      const x = box.valueAsNumber;
      slider.value = 1000 * (log ? Math.log(x / from) / Math.log(to / from) : (x - from) / (to - from));
      slider.ariaValueText = box.value;
    };
    slider.oninput = () => {
      const share = slider.value / 1000, x = log ? from * (to / from) ** share : from + (to - from) * share;
      const digits = log ? Math.abs(x) : Math.abs(to - from) / 1000;
      const unit = 10 ** (Math.floor(Math.log10(digits)) - (log ? 2 : 0));
      box.value = key === "n" ? Math.max(1, Math.round(Math.round(x / unit) * unit))
        : Number((Math.round(x / unit) * unit).toPrecision(12));
      slider.ariaValueText = box.value;
      update();
    };
    box.oninput = () => { place(); update(); };
    place();
  }
  find("#alpha").oninput = update;
  find("#use-best").onclick = () => {
    if (!find("#best .clip").dataset.value) return; // still to be found
    ["lower", "upper"].forEach((key, i) => { find(`#${key}`).value = best[i]; });
    ["lower", "upper"].forEach((key) => find(`#${key}`).dispatchEvent(new Event("input")));
  };
  find("#use-best").hidden = !fixed;
  find("#best").hidden = !fixed;
  find("#sliders").hidden = false;
  update();
}
