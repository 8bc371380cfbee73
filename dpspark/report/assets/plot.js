// What the plots share: scales, ticks, and a box that is drawn again when its width changes.

function responsive(label, draw) {
  const box = el("div", { class: "plot" });
  let last = 0;
  const again = (width) => {
    if (width < 1 || Math.abs(width - last) < 1) return;
    last = width;
    const picture = draw(Math.max(260, width));
    fill(picture, { role: "img", "aria-label": label }, []);
    box.replaceChildren(picture);
  };
  new ResizeObserver(([entry]) => again(Math.floor(entry.contentRect.width))).observe(box);
  return box;
}

const canvas = (width, height, ...children) =>
  svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height }, ...children);

function scale(domain, range, logarithmic = false) {
  const to = logarithmic ? Math.log : (value) => value;
  const [low, high] = domain.map(to);
  return (value) => range[0] + ((to(value) - low) / (high - low || 1)) * (range[1] - range[0]);
}

function ticks(low, high, count) {
  const step = niceStep((high - low) / Math.max(1, count)),
    found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) found.push(k * step);
  return found;
}

function niceStep(rough) {
  if (!(rough > 0) || !Number.isFinite(rough)) return 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9));
}

function logTicks(low, high, most) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) found.push(power);
  const every = Math.ceil(found.length / most),
    few = found.length <= 3;
  return found
    .flatMap((power) => (power % every ? [] : few ? [1, 2, 5].map((m) => m * 10 ** power) : [10 ** power]))
    .filter((value) => value >= low * 0.999 && value <= high * 1.001);
}

// Large numbers in few characters.
function short(value) {
  const size = Math.abs(value);
  for (const [limit, letter] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ]) {
    if (size >= limit && size < 1e15) return `${general(value / (limit === 1e4 ? 1e3 : limit), 4)}${letter}`;
  }
  return digits(value, 4);
}

function cut(text, width, size = 13) {
  const most = Math.max(3, Math.floor(width / (size * 0.56)));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function label(x, y, text, options = {}) {
  return svg("text", { x, y, ...options }, text);
}

function bottomAxis(x, values, top, bottom, title, width) {
  return svg(
    "g",
    { class: "axis" },
    values.map((value) => svg("line", { x1: x(value), x2: x(value), y1: top, y2: bottom, class: "grid" })),
    values.map((value) => label(x(value), bottom + 18, short(value), { "text-anchor": "middle" })),
    label(width / 2, bottom + 38, cut(title, width), { "text-anchor": "middle", class: "axis-title" }),
  );
}

function leftAxis(y, values, left, right) {
  return svg(
    "g",
    { class: "axis" },
    values.map((value) => svg("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "grid" })),
    values.map((value) => label(left - 6, y(value) + 4, short(value), { "text-anchor": "end" })),
  );
}

const markers = [
  (x, y) => svg("circle", { cx: x, cy: y, r: 4 }),
  (x, y) => svg("rect", { x: x - 3.6, y: y - 3.6, width: 7.2, height: 7.2 }),
  (x, y) => svg("path", { d: `M${x} ${y - 5}L${x + 4.8} ${y + 3.6}H${x - 4.8}Z` }),
  (x, y) => svg("path", { d: `M${x} ${y - 5}L${x + 5} ${y}L${x} ${y + 5}L${x - 5} ${y}Z` }),
  (x, y) => svg("path", { d: `M${x} ${y + 5}L${x + 4.8} ${y - 3.6}H${x - 4.8}Z` }),
  (x, y) => svg("path", { d: `M${x - 4} ${y}H${x + 4}M${x} ${y - 4}V${y + 4}`, class: "stroke" }),
];
