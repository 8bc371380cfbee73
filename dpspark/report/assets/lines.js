// Lines and quantiles, as released: a row for each group, and the chosen one as a picture.

function linesView(content) {
  const columns = content.columns.map((column) => ({ ...column, values: singlesOf(column.values) }));
  const find = (of, at) => columns.find((column) => column.of === of && column.cut === at)?.values;
  const statuses = bytesOf(content.status);
  const detail = (i, name) => {
    const status = content.statuses[statuses[i]];
    const points = content.cuts.map((x, k) => ({
      x,
      value: find("estimate", k)[i],
      low: find("ci_low", k)?.[i] ?? NaN,
      high: find("ci_high", k)?.[i] ?? NaN,
    }));
    const line = {
      slope: columns.find((c) => c.of === "slope").values[i],
      intercept: columns.find((c) => c.of === "intercept").values[i],
    };
    line.weak = status === WEAK;
    const what = `${shown(content.y)} against ${shown(content.x)}: ${name}${line.weak ? ", weakly identified" : ""}`;
    return el(
      "figure",
      {},
      el("figcaption", {}, what),
      responsive(`${what}. The numbers are in the table.`, (width) => drawLine(content, points, line, width)),
    );
  };
  return groupsView(content, columns, detail);
}

function drawLine(content, points, line, width) {
  const height = 260,
    left = 62,
    right = width - 14,
    top = 12,
    bottom = height - 48,
    [from, to] = content.x_bounds;
  const at = (x) => line.intercept + line.slope * x;
  const ends = [at(from), at(to), ...points.flatMap((p) => [p.value, p.low, p.high])].filter(Number.isFinite);
  if (!ends.length) return canvas(width, 40, label(12, 24, "This group has no line: see its status."));
  const low = Math.min(...ends),
    high = Math.max(...ends),
    room = 0.08 * (high - low || 1);
  const x = scale([from, to], [left, right]),
    y = scale([low - room, high + room], [bottom, top]);
  const marks = points
    .filter((p) => Number.isFinite(p.value))
    .map((p) =>
      svg(
        "g",
        { class: line.weak ? "effect unsure" : "effect" },
        svg("title", {}, `${short(p.x)}: ${digits(p.value, 5)}`),
        Number.isFinite(p.low)
          ? svg("path", {
              d: `M${x(p.x) - 5} ${y(p.low)}h10M${x(p.x)} ${y(p.low)}V${y(p.high)}M${x(p.x) - 5} ${y(p.high)}h10`,
              class: "interval",
            })
          : null,
        svg("circle", { cx: x(p.x), cy: y(p.value), r: 4.5 }),
      ),
    );
  return canvas(
    width,
    height,
    bottomAxis(x, ticks(from, to, width / 110), top, bottom, shown(content.x), left + right),
    leftAxis(y, ticks(low - room, high + room, 5), left, right),
    Number.isFinite(line.slope)
      ? svg(
          "g",
          { class: "c0" },
          svg("line", { x1: x(from), x2: x(to), y1: y(at(from)), y2: y(at(to)), class: line.weak ? "curve weak" : "curve" }),
        )
      : null,
    marks,
  );
}

function quantilesView(content) {
  const columns = content.columns.map((column) => ({ ...column, values: singlesOf(column.values) }));
  const bounds = new Map(content.bounds.map((column) => [column.name, [column.lower, column.upper]]));
  const detail = (i, name) =>
    el(
      "div",
      { class: "panels" },
      [...new Set(columns.map((column) => column.column))].map((column) => {
        const points = columns
          .filter((c) => c.column === column)
          .map((c) => ({ p: c.probability, value: c.values[i] }))
          .sort((a, b) => a.p - b.p);
        const what = `Quantiles of ${shown(column)}: ${name}`;
        return el(
          "figure",
          {},
          el("figcaption", {}, what),
          responsive(`${what}. The numbers are in the table.`, (width) =>
            drawQuantiles(points, bounds.get(column), shown(column), width),
          ),
        );
      }),
    );
  return groupsView(content, columns, detail);
}

function drawQuantiles(points, range, name, width) {
  const height = 240,
    left = 44,
    right = width - 14,
    top = 12,
    bottom = height - 48,
    values = points.map((p) => p.value);
  const [low, high] = range?.[0] === undefined ? [Math.min(...values), Math.max(...values)] : range;
  const x = scale([low, high], [left, right]),
    y = scale([0, 1], [bottom, top]);
  return canvas(
    width,
    height,
    bottomAxis(x, ticks(low, high, width / 110), top, bottom, name, left + right),
    leftAxis(y, [0, 0.25, 0.5, 0.75, 1], left, right),
    svg(
      "g",
      { class: "c0" },
      svg("path", { d: points.map((p, i) => `${i ? "L" : "M"}${x(p.value)} ${y(p.p)}`).join(""), class: "curve" }),
      points.map((p) =>
        svg("g", {}, svg("title", {}, `${p.p}: ${digits(p.value, 6)}`), markers[0](x(p.value), y(p.p))),
      ),
    ),
  );
}
