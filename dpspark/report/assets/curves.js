// Errors against the budget, both on logarithmic scales.

function errorCurves(errors, box) {
  box.append(el("div", { class: "panels" }, errors.panels.map(errorPanel)));
  if (errors.note) box.append(el("p", { class: "hint" }, errors.note));
}

function errorPanel(panel) {
  const symbol = panel.key === "rho" ? "ρ" : "ε",
    given = panel.delta ? ` (δ = ${general(panel.delta, 3)})` : "";
  const curves = panel.curves.map((curve) => ({ ...curve, label: shown(curve.label) }));
  if (!curves.some((curve) => curve.values.some((value) => value > 0))) {
    return el("p", { class: "note" }, `${shown(panel.title)}: not identified at any budget near this one.`);
  }
  const what = `${shown(panel.title)}: ${panel.unit}, against ${symbol}`;
  const picture = responsive(`${what}. The numbers follow.`, (width) =>
    drawCurves(panel, curves, `${symbol}${given}`, width),
  );
  const keys = curves.map((curve, k) =>
    el(
      "li",
      { class: `c${k % 6}` },
      svg(
        "svg",
        { width: 26, height: 12, viewBox: "0 0 26 12" },
        svg("path", { d: "M0 6H26", class: "curve" }),
        markers[k % 6](13, 6),
      ),
      curve.label,
    ),
  );
  const numbers = panel.budgets.map((value, i) => [
    general(value, 3),
    ...curves.map((curve) => (curve.values[i] === null ? "–" : general(curve.values[i], 4))),
  ]);
  const floors = ["without noise", ...curves.map((curve) => (curve.floor === null ? "–" : general(curve.floor, 4)))];
  return el(
    "figure",
    {},
    el("figcaption", {}, shown(panel.title), el("span", { class: "hint" }, panel.unit)),
    picture,
    el("ul", { class: "keys" }, keys),
    numbersOf(what, [symbol, ...curves.map((curve) => curve.label)], [...numbers, floors]),
  );
}

function drawCurves(panel, curves, symbol, width) {
  const height = Math.min(330, 0.62 * width + 60),
    left = 58,
    right = width - 14,
    top = 22,
    bottom = height - 48;
  const values = curves.flatMap((curve) => [...curve.values, curve.floor]).filter((value) => value > 0);
  const y = scale([Math.min(...values) / 1.15, Math.max(...values) * 1.15], [bottom, top], true);
  const x = scale([panel.budgets[0], panel.budgets.at(-1)], [left, right], true);
  const lines = curves.map((curve, k) => {
    const points = curve.values.map((value, i) => (value > 0 ? [x(panel.budgets[i]), y(value)] : null));
    const d = points
      .map((point, i) => (point ? `${i && points[i - 1] ? "L" : "M"}${point[0]} ${point[1]}` : ""))
      .join("");
    const every = Math.max(1, Math.round(points.length / 6));
    return svg(
      "g",
      { class: `c${k % 6}` },
      curve.floor > 0 ? svg("path", { d: `M${left} ${y(curve.floor)}H${right}`, class: "floor" }) : null,
      svg("path", { d, class: "curve" }),
      points.filter((point, i) => point && i % every === Math.floor(every / 2)).map(([a, b]) => markers[k % 6](a, b)),
    );
  });
  return canvas(
    width,
    height,
    bottomAxis(x, logTicks(panel.budgets[0], panel.budgets.at(-1), width / 60), top, bottom, symbol, left + right),
    leftAxis(y, logTicks(Math.min(...values) / 1.15, Math.max(...values) * 1.15, 7), left, right),
    svg("line", { x1: x(panel.now), x2: x(panel.now), y1: top - 6, y2: bottom, class: "now" }),
    label(x(panel.now), top - 10, `this release: ${general(panel.now, 4)}`, {
      "text-anchor": "middle",
      class: "now-text",
    }),
    lines,
  );
}
