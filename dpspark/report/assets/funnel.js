// Plots of all groups at once: a funnel of raw and smoothed values, and how well the model describes the raw ones.

// Points of whole pixels, each once: tens of thousands are one path.
function dots(xs, ys, x, y) {
  const seen = new Set();
  let found = "";
  for (let i = 0; i < xs.length; i += 1) {
    if (!Number.isFinite(xs[i]) || !Number.isFinite(ys[i])) continue;
    const place = `M${Math.round(x(xs[i]))} ${Math.round(y(ys[i]))}h0`;
    if (!seen.has(place)) {
      seen.add(place);
      found += place;
    }
  }
  return found;
}

// The central part of values: a few far away must not flatten the rest.
function wideRange(values) {
  const sorted = Float64Array.from(values.filter(Number.isFinite)).sort();
  return sorted.length ? [sorted[Math.floor(0.001 * sorted.length)], sorted[Math.ceil(0.999 * sorted.length) - 1]] : [0, 1];
}

function drawFunnel(number, width) {
  const height = 320,
    left = 62,
    right = width - 14,
    top = 14,
    bottom = height - 48;
  const { raw, estimate, expected, noise_std: noise } = number.values;
  const off = raw.map((value, i) => value - expected[i]),
    drawn = estimate.map((value, i) => value - expected[i]);
  const [from, to] = wideRange(noise),
    room = 0.04 * (to - from || to || 1),
    half = Math.max(...wideRange(off).map(Math.abs), 2 * Math.hypot(to, number.std)) * 1.05;
  const x = scale([from - room, to + room], [left, right]),
    inside = scale([-half, half], [bottom, top]),
    y = (value) => inside(Math.max(-half, Math.min(half, value)));
  const clip = Float32Array.from(noise, (value) => Math.min(to, Math.max(from, value)));
  const limit = (times) => {
    const at = Array.from({ length: 60 }, (_, i) => from - room + ((to - from + 2 * room) * i) / 59);
    const line = (sign) =>
      at.map((s, i) => `${i ? "L" : "M"}${x(s)} ${y(sign * times * Math.hypot(s, number.std))}`).join("");
    return svg("path", { d: line(1) + line(-1), class: times > 3 ? "limit far" : "limit" });
  };
  return canvas(
    width,
    height,
    bottomAxis(x, ticks(from, to, width / 110), top, bottom, "standard deviation of the raw value’s noise", left + right),
    leftAxis(y, ticks(-half, half, 6), left, right),
    svg("path", { d: dots(clip, off, x, y), class: "dots raw" }),
    svg("path", { d: dots(clip, drawn, x, y), class: "dots smoothed" }),
    svg("g", {}, limit(1.96), limit(4)),
  );
}

function drawCalibration(points, width) {
  const height = 320,
    left = 50,
    right = Math.min(width - 14, left + 300),
    top = 14,
    bottom = height - 48;
  const x = scale([0, 1], [left, right]),
    y = scale([0, 1], [bottom, top]),
    at = [0, 0.25, 0.5, 0.75, 1];
  return canvas(
    width,
    height,
    bottomAxis(x, at, top, bottom, "share that the model expects below", left + right),
    leftAxis(y, at, left, right),
    svg("line", { x1: x(0), y1: y(0), x2: x(1), y2: y(1), class: "limit" }),
    svg(
      "g",
      { class: "c0" },
      svg("path", { d: points.map(([p, share], i) => `${i ? "L" : "M"}${x(p)} ${y(share)}`).join(""), class: "curve" }),
    ),
  );
}

function funnelFigure(number, title) {
  const what = `Funnel of ${title}`,
    hint =
      "Distance of raw (grey) and smoothed (blue) values from what the model expects. 95% of raw values should be between " +
      "the inner lines; those beyond the outer ones fit badly.";
  return el(
    "figure",
    {},
    el("figcaption", {}, what, el("span", { class: "hint" }, hint)),
    responsive(`${what}. The numbers are in the table.`, (width) => drawFunnel(number, width)),
  );
}

function calibrationFigure(number, title) {
  const what = `Calibration of ${title}`,
    hint = "The share of raw values below each point of the model’s law. On the dashed line it is as the model says.";
  const rows = number.calibration.map(([p, share]) => [fixed(p, 2), fixed(share, 3)]);
  return el(
    "figure",
    {},
    el("figcaption", {}, what, el("span", { class: "hint" }, hint)),
    responsive(`${what}. The numbers follow.`, (width) => drawCalibration(number.calibration, width)),
    numbersOf(what, ["Expected share", "Seen share"], rows),
  );
}
