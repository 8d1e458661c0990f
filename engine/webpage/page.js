// Draws the report of the page, whose members are those of `qg report --json`
// (docs/report.md).  Names come from files: they become text nodes and attributes, never
// markup.
"use strict";
const report = JSON.parse(document.getElementById("report").textContent);
const rows = (name) => report[name] || [];
const SVG = "http://www.w3.org/2000/svg";
const BOX = { width: 168, height: 44 };
const FEW = 12; // rows of a table before "show all"

// --- elements ---

function fill(e, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {}))
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) e.setAttribute(key, value);
  for (const child of children.flat(9))
    if (child !== null && child !== undefined)
      e.append(child instanceof Node ? child : document.createTextNode(String(child)));
  return e;
}
const el = (name, attributes, ...children) =>
  fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

// --- numbers ---

const minus = (text) => text.replace(/^-/, "−");
function power(x, places) {
  const [digits, exponent] = x.toExponential(places).replace("+", "").split("e");
  return `${minus(digits)}·10${[...exponent].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("")}`;
}
const WHOLE = 1e12; // counts are smaller; larger ones are floats without a fraction
function number(x) {
  if (x === null || x === undefined) return "–";
  if (typeof x === "boolean") return x ? "yes" : "no";
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < WHOLE) return minus(x.toLocaleString("en-US"));
  if (size >= 1e6 || size < 1e-4) return power(x, 2);
  return minus(String(Number(x.toPrecision(4))));
}
function percent(x) {
  if (x === null || x === undefined) return "–";
  if (x === 0) return "0 %";
  const y = 100 * x;
  if (Math.abs(y) < 1e-4 || Math.abs(y) >= 1e6) return `${power(y, 1)} %`;
  return minus(`${Number(y.toPrecision(Math.abs(y) < 10 ? 2 : 3))} %`);
}
const decibels = (x) => (x > 0 ? `${(-10 * Math.log10(x)).toFixed(1)} dB SNR` : "no error");
const isShare = report.metric === "nsr";
const error = (x) => (isShare ? percent(x) : number(x));
function bytes(n) {
  const unit = n >= 1e6 ? ["MB", 1e6] : n >= 1e3 ? ["kB", 1e3] : ["bytes", 1];
  return `${Number((n / unit[1]).toPrecision(3))} ${unit[0]}`;
}
function list(x) {
  if (!Array.isArray(x)) return x === null ? "–" : number(x);
  if (x.length <= 4) return x.map(number).join(", ");
  return `${x.length} values from ${number(Math.min(...x))} to ${number(Math.max(...x))}`;
}

// --- index ---

const by = (table, key) => new Map(table.map((row) => [row[key], row]));
function byMany(table, key) {
  const map = new Map();
  for (const row of table) {
    if (!map.has(row[key])) map.set(row[key], []);
    map.get(row[key]).push(row);
  }
  return map;
}
const nodeOf = (endpoint) => endpoint.slice(0, endpoint.lastIndexOf("."));
const boxes = rows("nodes");
const nodeIndex = new Map();
boxes.forEach((b, i) => { if (b.operator !== null) nodeIndex.set(b.name, i); });
const layers = by(rows("layers"), "name");
const secondLayers = by(rows("second_layers"), "name");
const harm = by(rows("sensitivity"), "name");
const fates = by(rows("lint_nodes"), "node");
const observed = by(rows("observed"), "endpoint");
const histograms = by(rows("histograms"), "value");
const samples = by(rows("values"), "endpoint");
const origins = by(rows("origins"), "id");
const endpointsOf = new Map();
for (const e of rows("endpoints")) {
  const node = nodeOf(e.endpoint);
  if (!endpointsOf.has(node)) endpointsOf.set(node, []);
  endpointsOf.get(node).push(e);
}
const changes = byMany(rows("changes"), "endpoint");
const groups = byMany(rows("groups"), "dominator");
const dominatorOf = new Map(rows("groups").map((g) => [g.member, g.dominator]));
const joint = by(rows("joint_scales"), "member");

// --- tables and bars ---

/* A name, which breaks behind its separators where a column is narrow. */
const broken = (name) => name.split(/(?<=[/.:])/).flatMap((part, k) => (k ? [el("wbr"), part] : [part]));
const mono = (text, more) => el("span", { class: more ? `mono ${more}` : "mono" }, broken(text));
const show = (node, text) =>
  nodeIndex.has(node)
    ? el("button", { type: "button", class: "link mono", onclick: () => choose(node, true) },
      broken(text || node))
    : mono(text || node);

/* columns: [heading, cell of a row, "n" for numbers or "bars"]. */
function table(columns, data, options = {}) {
  if (!data.length) return el("p", { class: "empty" }, options.none || "None.");
  const row = (r) =>
    el("tr", { class: options.sum && options.sum(r) ? "sum" : null },
      columns.map(([, cell, kind]) => el("td", { class: kind || null }, cell(r))));
  const body = el("tbody", null, data.slice(0, options.few || FEW).map(row));
  const head = el("tr", null,
    columns.map(([name, , kind]) => el("th", { scope: "col", class: kind || null }, name)));
  const whole = el("div", { class: "wide" }, el("table", null, el("thead", null, head), body));
  if (data.length <= (options.few || FEW)) return whole;
  const more = el("button", { type: "button", class: "more", "data-few": options.few || FEW,
    "data-all": data.length, onclick: () => {
    body.append(...data.slice(options.few || FEW).map(row));
    more.remove();
  } }, `Show all ${data.length}`);
  return el("div", null, whole, more);
}

/* A bar from 0 to x on an axis from low to high, with the zero where it is inside. */
function meter(x, low, high, other) {
  if (x === null || x === undefined) return null;
  if (x === 0 && low >= 0) return el("div", { class: other ? "meter other" : "meter", "aria-hidden": "true" });
  const span = high - low || 1;
  const at = (v) => (100 * (v - low)) / span;
  const from = Math.min(at(0), at(x)), width = Math.abs(at(x) - at(0));
  return el("div", { class: other ? "meter other" : "meter", "aria-hidden": "true" },
    styled("i", { left: from, width }, x < 0 ? "less" : null),
    low < 0 ? styled("b", { left: at(0) }) : null);
}
function styled(name, places, className) {
  const e = el(name, { class: className });
  for (const [key, value] of Object.entries(places)) e.style[key] = `${value}%`;
  return e;
}
const most = (data, key) => Math.max(0, ...data.map((r) => Math.abs(r[key] || 0)));

// --- the frame ---

const sections = [];
function section(id, title, about, ...content) {
  sections.push([id, title]);
  return el("section", { id, "aria-labelledby": `${id}-title` },
    el("h2", { id: `${id}-title` }, title), about ? el("p", { class: "about" }, about) : null, content);
}

// --- summary ---

const tile = (name, value, ...more) =>
  el("div", { class: "tile" }, el("dt", null, name), el("dd", null, value),
    more.filter((m) => m).map((m) => el("dd", null, m)));

function unmeasured() {
  const note = (text) => el("p", { class: "about" }, text);
  return [
    report.chosen_by_data === undefined ? null
      : note(`Chosen by the data: ${report.chosen_by_data}. Their errors are measured in front of the choice, `
        + `at ${report.measured_in_front}.`),
    report.not_measured === undefined ? null : note(`Not measured: ${report.not_measured}.`)];
}

function summary() {
  const outputs = rows("outputs");
  const worst = outputs.reduce((a, b) => (a && a.error >= b.error ? a : b), null);
  const smaller = report.float_bytes / report.quantized_bytes;
  const tiles = el("dl", { class: "tiles" },
    report.simulated_top1 === undefined ? null
      : tile("Top-1 accuracy", percent(report.simulated_top1),
        `float ${percent(report.float_top1)}, same class on ${percent(report.agreement)}`),
    worst ? tile("Noise at the worst output", error(worst.error),
      isShare ? decibels(worst.error) : null, worst.name) : null,
    tile("Constants", bytes(report.quantized_bytes),
      `${smaller.toFixed(2)}× smaller than ${bytes(report.float_bytes)}`),
    tile("Quantized nodes", `${report.quantized_nodes} of ${report.nodes_of_the_network}`,
      `${rows("fusions").length} outputs stay inside of fused kernels`),
    report.lint_found === undefined ? null
      : tile("Lint findings", number(report.lint_found), report.lint_title));
  return section("summary", "Summary", null, tiles, el("div", { class: "columns" },
    el("div", null, el("h3", null, "Outputs"),
      table([["Output", (r) => mono(r.name)],
        ["Type", (r) => mono(r.what, "soft")],
        ["Error", (r) => error(r.error), "n"],
        ["", (r) => meter(r.error, 0, most(outputs, "error")), "bars"]], outputs),
      unmeasured()),
    el("div", null, el("h3", null, "Bit budget"),
      table([["Tensors", (r) => r.kind], ["Bits", (r) => r.bits, "n"],
        ["Count", (r) => number(r.tensors), "n"],
        ["Elements", (r) => number(r.elements), "n"]], rows("bits")))));
}

// --- error budget ---

function budget(name, title, about) {
  const data = rows("causes").filter((r) => r.budget === name);
  if (!data.length) return null;
  const low = Math.min(0, ...data.map((r) => r.removes));
  const high = Math.max(...data.map((r) => r.removes));
  return el("div", null, el("h3", null, title), el("p", { class: "soft" }, about),
    table([["Cause", (r) => r.cause.replaceAll(" x ", " × ")], ["Removes", (r) => error(r.removes), "n"],
      ["Share", (r) => percent(r.share), "n"],
      ["", (r) => meter(r.removes, low, high), "bars"]], data,
    { sum: (r) => r.cause === "sum", few: 20 }));
}
function causes() {
  if (!rows("causes").length) return null;
  return section("causes", "Error budget",
    `Every cause was switched off, alone and together with the others, and the error of the output `
    + `${report.causes_output} measured each time. A row is the error that goes away with its cause; `
    + `rows with × are what two or three causes remove together beyond their own rows. `
    + `All rows sum to the error of the quantized network.`,
    el("div", { class: "columns" },
      budget("place", "By place", "Which tensors are quantized."),
      budget("mechanism", "By mechanism", "What quantizing does to them.")));
}

// --- sensitivity and layers ---

function ranking() {
  const harmful = rows("sensitivity"), errors = rows("layers");
  const columns = (data) => [["Node", (r) => show(r.name)],
    ["Operator", (r) => r.what], ["Error", (r) => error(r.error), "n"],
    ["", (r) => meter(r.error, 0, most(data, "error")), "bars"]];
  return section("sensitivity", "Where the error comes from", null,
    el("div", { class: "columns" },
      el("div", null, el("h3", null, "Sensitivity"),
        el("p", { class: "soft" }, "Error of the worst output when only this node is quantized."),
        table(columns(harmful), harmful)),
      el("div", null, el("h3", null, "Accumulated error"),
        el("p", { class: "soft" }, "Error at the output of each compute node, everything quantized."),
        table(columns(errors), errors))));
}

// --- ranges ---

function ranges() {
  const data = [...rows("observed")].sort((a, b) => (b.error || 0) - (a.error || 0));
  return section("ranges", "Ranges and calibration",
    "Activations with one scale: the ends of the grid, how much of the data of this page lies outside, "
    + "the standard error of the scale over parts of these samples, and the number of samples after "
    + "which it stayed within 1 %. The least certain first.",
    table([["Endpoint", (r) => show(nodeOf(r.endpoint), r.endpoint)],
      ["Range", (r) => `${number(r.low)} to ${number(r.high)}`, "n loose"],
      ["Clipped", (r) => percent(r.clipped), "n"],
      ["Scale ±", (r) => percent(r.error), "n"],
      ["Settled after", (r) => (r.settled_after === null ? "–" : `${number(r.settled_after)} of ${number(report.samples)}`), "n loose"]],
    data));
}

// --- fusions ---

function fusions() {
  const misses = rows("near_misses");
  return section("fusions", "Fusions", null, el("div", { class: "columns" },
    el("div", null, el("h3", null, "Patterns that matched"),
      table([["Pattern", (r) => mono(`${r.pass}/${r.pattern}`)],
        ["Matched", (r) => number(r.matched), "n"],
        ["Near misses", (r) => number(r.near_misses), "n"]],
      rows("patterns").filter((r) => r.matched || r.near_misses))),
    el("div", null, el("h3", null, "Near misses"),
      el("p", { class: "soft" }, "Places where one condition of a pattern failed."),
      table([["Node", (r) => show(r.node)],
        ["Pattern", (r) => mono(r.pattern)],
        ["Condition that failed", (r) => r.condition]], misses, { none: "No pattern nearly matched." }))));
}

// --- lint ---

const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

function lint() {
  if (report.lint_target === undefined) return null;
  const found = byMany(rows("lint_findings"), "rule");
  return section("lint", "Lint",
    `Target ${report.lint_target}: ${report.lint_title}. ${number(report.lint_integer_kernels)} nodes are `
    + `integer kernels, ${number(report.lint_float_nodes)} compute in float.`,
    rows("lint_rules").length ? null : el("p", { class: "empty" }, "Nothing was found."),
    rows("lint_rules").map((r) => el("div", null,
      el("h3", { class: "mono" }, r.rule, " ", el("span", { class: `level ${r.level}` }, r.level)),
      el("p", null, `${capital(r.why)}. Remedy: ${r.remedy}.`),
      table([["Where", (f) => show(nodeIndex.has(f.where) ? f.where : nodeOf(f.where), f.where)],
        ["Operator", (f) => f.operator], ["Detail", (f) => f.detail || "–"]], found.get(r.rule) || []))));
}

// --- two snapshots ---

function comparison() {
  if (!report.second_backend) return null;
  const second = by(rows("second_outputs"), "name");
  const outputs = rows("outputs").map((r) => ({ ...r, second: (second.get(r.name) || {}).error ?? null }));
  const names = new Set([...layers.keys(), ...secondLayers.keys()]);
  const both = [...names].map((name) => {
    const a = layers.get(name), b = secondLayers.get(name);
    return { name, what: (a || b).what, first: a ? a.error : null, second: b ? b.error : null };
  });
  const apart = (r) => Math.abs((r.first || 0) - (r.second || 0));
  both.sort((a, b) => apart(b) - apart(a));
  const top = Math.max(most(both, "first"), most(both, "second"));
  const pair = (a, b, high) => [meter(a, 0, high), meter(b, 0, high, true)];
  const head = (text, other) => el("span", null, el("span", { class: other ? "key other" : "key" }), text);
  const one = "first", two = "second";
  const topOut = Math.max(most(outputs, "error"), most(outputs, "second"));
  return section("compare", "Comparison",
    `First: ${report.backend}. Second: ${report.second_backend}, snapshot ${report.second_snapshot}. `
    + (report.second_simulated_top1 === undefined ? ""
      : `Top-1 accuracy ${percent(report.simulated_top1)} and ${percent(report.second_simulated_top1)}. `)
    + `${number(report.nodes_changed)} nodes, ${number(report.endpoints_changed)} endpoints and `
    + `${number(report.scales_changed)} scales differ.`,
    el("div", { class: "columns" },
      el("div", null, el("h3", null, "Outputs"),
        table([["Output", (r) => mono(r.name)],
          [head(one), (r) => error(r.error), "n"], [head(two, true), (r) => error(r.second), "n"],
          ["", (r) => pair(r.error, r.second, topOut), "bars"]], outputs)),
      el("div", null, el("h3", null, "Layers, the largest differences first"),
        table([["Node", (r) => show(r.name)], [head(one), (r) => error(r.first), "n"],
          [head(two, true), (r) => error(r.second), "n"],
          ["", (r) => pair(r.first, r.second, top), "bars"]], both))),
    el("h3", null, "Records that differ"),
    table([["Endpoint", (r) => show(nodeOf(r.endpoint), r.endpoint)], ["Field", (r) => r.field],
      ["First", (r) => r.first ?? "–"], ["Second", (r) => r.second ?? "–"]], rows("changed_endpoints"),
    { none: "All records are equal." }),
    el("h3", null, "Scales that differ"),
    table([["Endpoint", (r) => show(nodeOf(r.endpoint), r.endpoint)],
      ["Difference", (r) => percent(r.difference), "n"], ["First", (r) => list(r.first)],
      ["Second", (r) => list(r.second)]],
    [...rows("changed_scales")].sort((a, b) => (b.difference ?? Infinity) - (a.difference ?? Infinity)),
    { none: "All scales are equal." }));
}

// --- colours of nodes ---

// Monotone in lightness, so that every kind of colour vision sees the order; dark
// ground: reversed, so that the largest error stands out there as well.
const LIGHT = ["#fff7d6", "#fde0a0", "#fbb76a", "#ee8150", "#c23b52", "#9a2a6b", "#5a1a63"];
const DARK = ["#3a2350", "#5f2a68", "#8f3a6a", "#c0535f", "#e5815a", "#f6b56f", "#fff0c0"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const printing = matchMedia("print");
const scaleOf = () => (dark.matches && !printing.matches ? DARK : LIGHT);
function ink(colour) {
  const c = [1, 3, 5].map((i) => {
    const v = parseInt(colour.slice(i, i + 2), 16) / 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2] > 0.186 ? "#10131a" : "#ffffff";
}
const FLOOR = 1e-3; // of the largest error: below it all colours are the lightest
const modes = {
  harm: ["Sensitivity: each node alone", (n) => (harm.get(n) || {}).error],
  layer: ["Accumulated error", (n) => (layers.get(n) || {}).error],
};
if (rows("second_layers").length)
  modes.second = ["Accumulated error, second", (n) => (secondLayers.get(n) || {}).error];

// --- the graph ---

const view = { x: 0, y: 0, scale: 1 };
let canvas, scene, panel, boxElements = [], edgeElements = [], chosen = null, mode = "harm";
const edgesOf = boxes.map(() => ({ up: [], down: [] }));
rows("edges").forEach((e) => { edgesOf[e.from].down.push(e.to); edgesOf[e.to].up.push(e.from); });

function cut(text, room) {
  return text.length > room ? `${text.slice(0, room - 9)}…${text.slice(-8)}` : text;
}

/* Wide letters: 22 of them do not fit where 22 of a usual name do. */
function narrow() {
  const room = BOX.width - 10;
  for (const t of canvas.querySelectorAll(".node text"))
    if (t.getComputedTextLength() > room)
      fill(t, { textLength: room, lengthAdjust: "spacingAndGlyphs" }, []);
}

/* A smooth line through the points: vertical at each of them. */
function path(points) {
  let d = `M${points[0]},${points[1]}`;
  for (let i = 2; i < points.length; i += 2) {
    const [x0, y0, x1, y1] = points.slice(i - 2, i + 2);
    const middle = (y0 + y1) / 2;
    d += x0 === x1 ? `V${y1}` : `C${x0},${middle} ${x1},${middle} ${x1},${y1}`;
  }
  return d;
}

function colourAll() {
  const value = modes[mode][1], stops = scaleOf();
  const numbers = boxes.map((b) => (b.operator === null ? undefined : value(b.name)));
  const known = numbers.filter((x) => x > 0);
  const low = Math.log(Math.max(Math.min(...known), Math.max(...known) * FLOOR)), high = Math.log(Math.max(...known));
  boxes.forEach((b, i) => {
    const x = numbers[i], box = boxElements[i];
    const has = x !== undefined && x !== null && b.operator !== null;
    const share = !(x > 0) ? 0 : high > low ? Math.max(0, (Math.log(x) - low) / (high - low)) : 1;
    const colour = stops[Math.round(share * (stops.length - 1))];
    box.classList.toggle("none", b.operator !== null && !has && b.platform === "quantized");
    box.firstChild.style.fill = has ? colour : "";
    box.querySelectorAll("text").forEach((t) => { t.style.fill = has ? ink(colour) : "var(--text)"; });
    box.setAttribute("aria-label", b.operator === null ? `${b.platform} ${b.name}`
      : `${b.operator} ${b.name}${has ? `, error ${error(x)}` : ""}`);
  });
  const legend = document.getElementById("legend");
  legend.replaceChildren();
  if (!known.length) return;
  const width = 16;
  fill(legend, {}, [error(Math.exp(low)),
    svg("svg", { width: width * stops.length, height: 14, role: "img", "aria-label": "colour scale, logarithmic" },
      stops.map((c, k) => svg("rect", { x: k * width, y: 0, width, height: 14, fill: c }))),
    error(Math.exp(high))]);
}

function drawBox(b, i) {
  const io = b.operator === null;
  const g = svg("g", { class: `node${io ? " io" : ""}${!io && b.platform !== "quantized" ? " float" : ""}`,
    transform: `translate(${b.x - BOX.width / 2},${b.y - BOX.height / 2})`, role: "button", tabindex: -1,
    "data-node": b.name },
  svg("rect", { width: BOX.width, height: BOX.height, rx: io ? 22 : 7 }),
  svg("text", { class: "op", x: BOX.width / 2, y: 18 }, io ? b.platform : cut(b.operator, 20)),
  svg("text", { x: BOX.width / 2, y: 35 }, cut(b.name, 22)),
  svg("title", null, `${b.name}\n${b.type || ""}`));
  g.addEventListener("click", () => { if (!view.moved) chooseBox(i); });
  return g;
}

function applyView() {
  scene.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.scale})`);
}
function bounds() {
  const xs = boxes.map((b) => b.x), ys = boxes.map((b) => b.y);
  return [Math.min(...xs) - BOX.width / 2, Math.min(...ys) - BOX.height / 2,
    Math.max(...xs) + BOX.width / 2, Math.max(...ys) + BOX.height / 2];
}
/* whole: all of it; else as wide as the window, from the top. */
function fit(whole) {
  const { width, height } = canvas.getBoundingClientRect();
  const [x0, y0, x1, y1] = bounds(), pad = 20;
  const wide = (width - 2 * pad) / (x1 - x0), high = (height - 2 * pad) / (y1 - y0);
  view.scale = Math.min(1, whole ? Math.min(wide, high) : Math.max(wide, 0.45, Math.min(wide, high)));
  view.x = width / 2 - (view.scale * (x0 + x1)) / 2;
  if (!whole && boxes.length) view.x = width / 2 - view.scale * boxes[0].x;
  if (view.scale * (x1 - x0) <= width) view.x = width / 2 - (view.scale * (x0 + x1)) / 2;
  view.y = whole ? height / 2 - (view.scale * (y0 + y1)) / 2 : pad - view.scale * y0;
  applyView();
}
function zoomBy(factor, x, y) {
  const { width, height } = canvas.getBoundingClientRect();
  const cx = x ?? width / 2, cy = y ?? height / 2;
  const scale = Math.min(3, Math.max(0.02, view.scale * factor));
  view.x = cx - ((cx - view.x) * scale) / view.scale;
  view.y = cy - ((cy - view.y) * scale) / view.scale;
  view.scale = scale;
  applyView();
}
function bring(i) {
  const { width, height } = canvas.getBoundingClientRect();
  view.scale = Math.max(view.scale, 0.7);
  view.x = width / 2 - view.scale * boxes[i].x;
  view.y = height / 2 - view.scale * boxes[i].y;
  applyView();
}
function isVisible(i) {
  const { width, height } = canvas.getBoundingClientRect();
  const x = view.x + view.scale * boxes[i].x, y = view.y + view.scale * boxes[i].y;
  return x > 40 && y > 20 && x < width - 40 && y < height - 20;
}

function pointers() {
  const down = new Map();
  let apart = 0;
  const spread = () => {
    const [a, b] = [...down.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  };
  canvas.addEventListener("pointerdown", (e) => {
    down.set(e.pointerId, { x: e.clientX, y: e.clientY });
    view.moved = false;
    if (down.size === 2) apart = spread();
  });
  canvas.addEventListener("pointermove", (e) => {
    const last = down.get(e.pointerId);
    if (!last) return;
    const dx = e.clientX - last.x, dy = e.clientY - last.y;
    if (!view.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    if (!view.moved) canvas.setPointerCapture(e.pointerId);
    view.moved = true;
    down.set(e.pointerId, { x: e.clientX, y: e.clientY });
    view.x += dx / down.size;
    view.y += dy / down.size;
    if (down.size === 2 && apart) {
      const now = spread();
      zoomBy(now / apart);
      apart = now;
    }
    applyView();
  });
  for (const end of ["pointerup", "pointercancel"])
    canvas.addEventListener(end, (e) => down.delete(e.pointerId));
  canvas.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey && document.activeElement !== canvas) return;
    e.preventDefault();
    const at = canvas.getBoundingClientRect();
    zoomBy(Math.exp(-e.deltaY / 400), e.clientX - at.left, e.clientY - at.top);
  }, { passive: false });
}

/* Arrows walk along edges and within a rank; plus, minus and 0 zoom. */
function keys(e) {
  const i = chosen ?? 0, here = boxes[i];
  const beside = (sign) => boxes.map((b, k) => [b, k])
    .filter(([b]) => b.y === here.y && sign * (b.x - here.x) > 0)
    .sort((a, b) => sign * (a[0].x - b[0].x)).map(([, k]) => k)[0];
  const to = { ArrowDown: () => edgesOf[i].down[0], ArrowUp: () => edgesOf[i].up[0],
    ArrowLeft: () => beside(-1), ArrowRight: () => beside(1), Home: () => 0, End: () => boxes.length - 1 };
  if (to[e.key]) {
    const next = chosen === null ? 0 : to[e.key]();
    if (next !== undefined) chooseBox(next);
  } else if (e.key === "+") zoomBy(1.25);
  else if (e.key === "-") zoomBy(0.8);
  else if (e.key === "0") fit(true);
  else return;
  e.preventDefault();
}

function graph() {
  const fused = new Set(rows("fusions").map((f) => `${nodeIndex.get(f.node)} ${nodeIndex.get(f.into)}`));
  const into = new Map(rows("fusions").map((f) => [nodeIndex.get(f.node), nodeIndex.get(f.into)]));
  const kernel = (i) => { for (let k = 0; into.has(i) && k < 99; k++) i = into.get(i); return i; };
  edgeElements = rows("edges").map((e) => svg("path", { class: "edge", d: path(e.points) }));
  const bands = rows("edges").filter((e) => fused.has(`${e.from} ${e.to}`)
    || (into.has(e.from) && kernel(e.from) === kernel(e.to)))
    .map((e) => svg("path", { class: "edge fused", d: path(e.points) }));
  boxElements = boxes.map(drawBox);
  scene = svg("g", null, bands, edgeElements, boxElements);
  canvas = svg("svg", { tabindex: 0, role: "application", id: "graph-canvas",
    "aria-label": "Graph of the network. Arrow keys walk from node to node, plus and minus zoom, 0 shows all.",
    onkeydown: keys }, scene);
  panel = el("aside", { class: "panel", id: "panel", "aria-live": "polite", "aria-label": "Node" });
  const select = el("select", { id: "colour", onchange: () => { mode = select.value; colourAll(); } },
    Object.entries(modes).map(([key, [title]]) => el("option", { value: key }, title)));
  const button = (text, name, act) =>
    el("button", { type: "button", "aria-label": name, title: name, onclick: act }, text);
  pointers();
  return section("graph", "Graph",
    "Click a node for its records. A band joins nodes that run as one kernel; a dotted box computes in float; "
    + "dashes mark nodes that share a scale with the chosen one. Drag to move, Ctrl and the wheel to zoom, "
    + "arrow keys to walk.",
    el("div", { class: "bar" }, search(),
      el("label", null, "Colour", select), el("div", { class: "legend", id: "legend" })),
    el("div", { class: "graph" },
      el("div", { class: "canvas" }, canvas,
        el("div", { class: "zoom" }, button("+", "zoom in", () => zoomBy(1.25)),
          button("−", "zoom out", () => zoomBy(0.8)), button("all", "show all", () => fit(true)))), panel));
}

// --- search ---

function search() {
  const words = [...rows("endpoints").map((e) => ({ text: e.endpoint, more: e.value, node: nodeOf(e.endpoint), endpoint: e.endpoint })),
    ...boxes.filter((b) => b.operator !== null).map((b) => ({ text: b.name, more: b.operator, node: b.name }))];
  const found = el("ul", { role: "listbox", id: "found", hidden: "" });
  let hits = [], at = 0;
  const close = () => { found.hidden = true; input.setAttribute("aria-expanded", "false"); };
  const take = (hit) => { close(); input.value = hit.text; choose(hit.node, true, hit.endpoint); };
  const draw = () => {
    found.replaceChildren(...hits.map((h, k) => el("li", { role: "option", id: `found-${k}`, "aria-selected": k === at,
      onpointerdown: (e) => { e.preventDefault(); take(h); } },
    el("b", { class: "mono" }, h.text), el("span", { class: "mono" }, h.more))));
    if (!hits.length) found.replaceChildren(el("li", { "aria-disabled": "true" }, "nothing has this name"));
    found.hidden = false;
    input.setAttribute("aria-expanded", "true");
    input.setAttribute("aria-activedescendant", hits.length ? `found-${at}` : "");
  };
  const look = () => {
    const word = input.value.trim().toLowerCase();
    if (!word) { close(); return; }
    const score = (w) => { const k = w.text.toLowerCase().indexOf(word); return k >= 0 ? k : w.more.toLowerCase().includes(word) ? 99 : -1; };
    hits = words.map((w) => [score(w), w]).filter(([s]) => s >= 0)
      .sort((a, b) => a[0] - b[0] || a[1].text.length - b[1].text.length).slice(0, 12).map(([, w]) => w);
    at = 0;
    draw();
  };
  const input = el("input", { type: "search", id: "search", placeholder: "Search nodes, endpoints, values", role: "combobox",
    "aria-label": "Search nodes, endpoints and values", "aria-controls": "found", "aria-expanded": "false", autocomplete: "off",
    oninput: look, onblur: close, onkeydown: (e) => {
      if (e.key === "Escape") close();
      else if (e.key === "Enter" && hits.length && !found.hidden) take(hits[at]);
      else if ((e.key === "ArrowDown" || e.key === "ArrowUp") && hits.length) {
        at = (at + (e.key === "ArrowDown" ? 1 : hits.length - 1)) % hits.length;
        draw();
        e.preventDefault();
      }
    } });
  return el("div", { class: "search" }, input, found);
}

// --- the panel ---

function choose(node, away, endpoint) {
  const i = nodeIndex.get(node);
  if (i === undefined) return;
  if (away) document.getElementById("graph").scrollIntoView({ block: "start" });
  chooseBox(i, endpoint);
  if (view.scale < 0.5) bring(i);
}
/* still: the view stays where it is. */
function chooseBox(i, endpoint, still) {
  chosen = i;
  const mine = new Set((endpointsOf.get(boxes[i].name) || []).map((e) => dominatorOf.get(e.endpoint)));
  mine.delete(undefined);
  const members = new Set([...mine].flatMap((d) => (groups.get(d) || []).map((g) => nodeOf(g.member))));
  boxElements.forEach((b, k) => {
    b.classList.toggle("chosen", k === i);
    b.classList.toggle("group", k !== i && boxes[k].operator !== null && members.has(boxes[k].name));
  });
  rows("edges").forEach((e, k) => edgeElements[k].classList.toggle("chosen", e.from === i || e.to === i));
  if (!still && !isVisible(i)) bring(i);
  fillPanel(boxes[i], endpoint);
}

const pairs = (...items) => el("dl", null, items.filter(([, v]) => v !== null && v !== undefined && v !== "")
  .map(([k, v]) => [el("dt", null, k), el("dd", null, v)]));

function fillPanel(b, endpoint) {
  const mine = endpointsOf.get(b.name) || [], fate = fates.get(b.name);
  const isOut = (e) => e.endpoint.slice(b.name.length + 1).startsWith("out");
  const ordered = [...mine.filter(isOut), ...mine.filter((e) => !isOut(e))];
  panel.replaceChildren(el("h3", { class: "mono" }, b.name),
    el("p", { class: "soft" }, b.operator === null ? `${b.platform} of the network` : b.operator),
    pairs(["type", b.type && mono(b.type)],
      ["platform", b.operator === null ? null : b.platform], ["because", b.because],
      ["only it quantized", harm.has(b.name) ? error(harm.get(b.name).error) : null],
      ["error at its output", layers.has(b.name) ? error(layers.get(b.name).error) : null],
      ["second snapshot", secondLayers.has(b.name) ? error(secondLayers.get(b.name).error) : null],
      [`on ${report.lint_target}`, fate && fate.fate !== "none" ? [fate.fate, fate.kernel ? `, kernel ${fate.kernel}` : "", fate.why ? ` (${fate.why})` : ""] : null]),
    ...scatter(`${b.name}.out0`),
    ...ordered.map((e, k) => record(e, endpoint ? e.endpoint === endpoint : k === 0)));
  if (b.operator === null) panel.append(...plainHistogram(b.name));
  panel.scrollTop = 0;
  const open = endpoint && panel.querySelector("details[open]");
  if (open) open.scrollIntoView({ block: "nearest" });
}

function why(by) {
  const origin = origins.get(by) || origins.get(by.slice(by.lastIndexOf("/") + 1));
  return origin && origin.why ? el("div", { class: "reason" }, el("b", { class: "mono" }, by), " – ", origin.why,
    origin.at ? el("div", { class: "soft mono" }, origin.at) : null) : null;
}

function record(e, open) {
  const slot = e.endpoint.slice(e.endpoint.lastIndexOf(".") + 1);
  const mine = changes.get(e.endpoint) || [], seen = observed.get(e.endpoint), shared = joint.get(e.endpoint);
  const group = groups.get(dominatorOf.get(e.endpoint)) || [];
  const rule = e.rule ? e.rule.replace(/ \(.*/, "") : null;
  const authors = [...new Set([rule, ...mine.map((c) => c.by)].filter((x) => x))];
  const body = el("div");
  const drawn = () => {
    if (body.childNodes.length) return;
    fill(body, {}, [pairs(["value", mono(e.value)], ["means", e.means], ["dominator",
      e.dominator && e.dominator !== "itself" && nodeIndex.has(nodeOf(e.dominator)) ? show(nodeOf(e.dominator), e.dominator) : e.dominator],
    ["grid", e.grid], ["scale", e.scale ? list(e.scale) : null], ["offset", e.offset ? list(e.offset) : null],
    ["observer", e.scale ? e.observer : null], ["rule", e.rule], ["decided by", e.decided_by],
    ["calibrated", shared ? `${shared.calibrated}, joint ${list(shared.joint)}` : null],
    ["clipped", seen ? percent(seen.clipped) : null],
    ["scale ±", seen && seen.error !== null ? `${percent(seen.error)}, within 1 % after ${number(seen.settled_after)} of ${number(report.samples)} samples` : null]),
    histogram(e.value, seen || observedOf(e)),
    group.length > 1 ? [el("h4", null, `Group of ${group.length}`),
      table([["Member", (g) => show(nodeOf(g.member), g.member)], ["State", (g) => g.state], ["By", (g) => g.joined_by || "–"]], group, { few: 6 })] : null,
    authors.some((a) => origins.has(a) || origins.has(a.slice(a.lastIndexOf("/") + 1))) ? [el("h4", null, "Why"), authors.map(why)] : null,
    mine.length ? [el("h4", null, "History"),
      table([["Field", (c) => c.field], ["Before", (c) => c.old], ["After", (c) => c.new],
        ["By", (c) => mono(c.by)]], mine, { few: 8 })] : null]);
  };
  const details = el("details", { ontoggle: drawn },
    el("summary", null, el("span", { class: "mono" }, slot), ` ${e.state === "none" ? "not quantized" : e.state.toLowerCase().replaceAll("_", "-")} `), body);
  if (open) { details.open = true; drawn(); }
  return details;
}
/* The limits of the group's dominator, for endpoints that do not round themselves. */
const observedOf = (e) => observed.get(e.dominator);

// --- plots ---

const PLOT = { width: 400, height: 120, left: 6, right: 6, foot: 22, head: 14 };

function histogram(value, limits) {
  const h = histograms.get(value);
  if (!h || !h.counts.length) return null;
  const end = h.from + h.width * h.counts.length;
  const x0 = Math.min(h.from, limits ? limits.low : h.from), x1 = Math.max(end, limits ? limits.high : end);
  const at = (x) => PLOT.left + ((x - x0) / (x1 - x0 || 1)) * (PLOT.width - PLOT.left - PLOT.right);
  const high = Math.max(...h.counts), room = PLOT.height - PLOT.foot - PLOT.head;
  // Square roots keep tails visible, which thresholds are about.
  const bars = h.counts.map((n, k) => {
    const a = h.from + k * h.width, b = a + h.width, tall = n ? Math.max(1, Math.sqrt(n / high) * room) : 0;
    const out = limits && (a > limits.high || b < limits.low);
    return n ? svg("rect", { class: out ? "clipped" : "counts", x: at(a), y: PLOT.height - PLOT.foot - tall,
      width: Math.max(0.6, at(b) - at(a) - 0.6), height: tall }) : null;
  });
  // Labels are inside of the two places they name, or beside them where these are close.
  const LABEL = 75, inside = limits && at(limits.high) - at(limits.low) > 2 * LABEL;
  const beside = (x, anchor) => (inside || (anchor === "start" ? at(x) < LABEL : at(x) > PLOT.width - LABEL) ? anchor
    : anchor === "start" ? "end" : "start");
  const line = (x, name, anchor) => [
    svg("line", { class: "limit", x1: at(x), x2: at(x), y1: PLOT.head, y2: PLOT.height - PLOT.foot }),
    svg("text", { x: at(x), y: 10, "text-anchor": beside(x, anchor) }, `${name} ${number(x)}`)];
  const label = (x, anchor, words) => svg("text", { x, y: PLOT.height - 8, "text-anchor": anchor }, words);
  const middle = Math.min(Math.max((at(h.from) + at(end)) / 2, LABEL), PLOT.width - LABEL);
  const ends = at(end) - at(h.from) > 2 * LABEL ? [label(at(h.from), "start", number(h.from)), label(at(end), "end", number(end))]
    : label(middle, "middle", `${number(h.from)} to ${number(end)}`);
  const text = `Histogram of ${value} in float, from ${number(h.from)} to ${number(end)}`
    + (limits ? `; the grid ends at ${number(limits.low)} and ${number(limits.high)}` : "");
  return svg("svg", { class: "plot histogram", viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img", "aria-label": text },
    bars, svg("line", { class: "axis", x1: 0, x2: PLOT.width, y1: PLOT.height - PLOT.foot, y2: PLOT.height - PLOT.foot }),
    ends, limits ? [line(limits.low, "low", "start"), line(limits.high, "high", "end")] : null);
}
const plainHistogram = (value) => {
  const h = histogram(value, null);
  return h ? [el("h4", null, "Values in float"), h] : [];
};

function scatter(endpoint) {
  const s = samples.get(endpoint);
  if (!s) return [];
  const all = [...s.float, ...s.quantized].filter((x) => x !== null);
  const low = Math.min(...all), high = Math.max(...all), size = 150, pad = 8;
  const at = (x) => pad + ((x - low) / (high - low || 1)) * (size - 2 * pad);
  const dots = s.float.map((x, k) => (x === null || s.quantized[k] === null ? null
    : svg("circle", { class: "dot", cx: 122 + at(x), cy: size - at(s.quantized[k]), r: 3 },
      svg("title", null, `${number(x)} → ${number(s.quantized[k])}`))));
  return [el("h4", null, "Float against quantized"),
    svg("svg", { class: "plot scatter", viewBox: `0 0 ${PLOT.width} ${size + 18}`, role: "img",
      "aria-label": `${s.float.length} of ${s.elements} elements of the first sample: float across, quantized up` },
    svg("rect", { class: "frame", x: 122, y: 0.5, width: size, height: size - 1, rx: 4 }),
    svg("line", { class: "ideal", x1: 122 + pad, y1: size - pad, x2: 122 + size - pad, y2: pad }), dots,
    svg("text", { x: 116, y: size / 2, "text-anchor": "end" }, "quantized"),
    svg("text", { x: 122 + size / 2, y: size + 13, "text-anchor": "middle" }, `float, ${number(low)} to ${number(high)}`),
    svg("text", { x: 122 + size + 8, y: size / 2 }, `${s.float.length} of ${number(s.elements)}`))];
}

// --- the page ---

/* On paper: light colours, the whole drawing, every detail; what a click adds is named. */
function print(on) {
  colourAll();
  fit(on);
  for (const d of document.querySelectorAll("details:not([open]), details.printed")) {
    d.open = on;
    d.classList.toggle("printed", on);
    d.dispatchEvent(new Event("toggle")); // the browser's own comes after the page is printed
  }
  for (const b of document.querySelectorAll("button.more")) {
    const [few, all] = [b.dataset.few, b.dataset.all];
    b.textContent = on ? `${few} of ${all}; the page has all` : `Show all ${all}`;
  }
}

function build() {
  document.title = `${report.model} – ${report.backend}`;
  const content = [summary(), graph(), causes(), ranking(), ranges(), fusions(), lint(), comparison()];
  const nav = el("nav", { "aria-label": "Sections" },
    el("ul", null, sections.map(([id, title]) => el("li", null, el("a", { href: `#${id}` }, title)))));
  const main = document.getElementById("page");
  main.before(el("a", { class: "skip", href: "#page" }, "Skip to the content"),
    el("header", null, el("h1", null, report.model),
      el("p", null, `Quantized for ${report.backend} by ${report.tool}, calibrated on ${number(report.calibration_samples)} samples; `
        + `measured on ${number(report.samples)} samples.`)), nav);
  fill(main, {}, content);
  colourAll();
  narrow();
  fit(false);
  const first = rows("sensitivity").find((r) => nodeIndex.has(r.name));
  if (boxes.length) chooseBox(first ? nodeIndex.get(first.name) : 0, null, true);
  dark.addEventListener("change", colourAll);
  printing.addEventListener("change", () => print(printing.matches));
}
build();
