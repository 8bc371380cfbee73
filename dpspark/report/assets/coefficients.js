// A regression as R prints it, and as a plot.

const CODES = "Signif. codes: 0 *** 0.001 ** 0.01 * 0.05 . 0.1";

const termText = (formula) =>
  `${shown(formula.response)} ~ ${formula.regressors.map(shown).join(" + ") || "1"}${formula.intercept ? "" : " − 1"}`;

function coefficientTable(fit) {
  const plain = fit.hasIntervals !== false;
  const level = `${general(100 * fit.level, 6)}%`;
  const withTests = fit.terms.some((row) => row.t !== undefined);
  const heads = plain
    ? ["Estimate", "Std. Error", ...(withTests ? ["t value", "Pr(>|t|)", ""] : []), `${level} low`, `${level} high`]
    : ["Estimate", "Privacy Error"];
  const rows = fit.terms.map((row) => {
    const error = plain ? row.std_error : row.privacy_std_error,
      decimals = decimalsOf(error);
    const number = (value) => numberCell(value, Number.isFinite(error) ? fixed(value, decimals) : general(value, 6));
    const tests = withTests
      ? [
          numberCell(row.t, fixed(row.t, 2)),
          numberCell(row.p_value, pText(row.p_value)),
          el("td", { class: "stars" }, stars(row.p_value)),
        ]
      : [];
    const cells = plain
      ? [number(row.estimate), number(row.std_error), ...tests, number(row.ci_low), number(row.ci_high)]
      : [number(row.estimate), number(row.privacy_std_error)];
    return el("tr", {}, el("th", { scope: "row" }, shown(row.term)), cells);
  });
  const head = heads.map((name) =>
    name ? el("th", { scope: "col", class: "number" }, name) : el("td", { class: "blank" }),
  );
  const table = el(
    "table",
    { class: "coefficients" },
    el("caption", {}, "Coefficients in original units"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Term"), head)),
    el("tbody", {}, rows),
  );
  return scrolling(table, "Coefficients");
}

// Nothing where the noise left no variance to explain.
function rSquaredText(fit) {
  if (!Number.isFinite(fit.r_squared)) return null;
  const adjusted = Number.isFinite(fit.adj_r_squared) ? `, adjusted: ${fixed(fit.adj_r_squared, 4)}` : "";
  return `R-squared: ${fixed(fit.r_squared, 4)}${adjusted} (${fit.weighted ? "weighted, " : ""}corrected for privacy noise)`;
}

// How the computed columns among some terms are defined.
function definitionLines(content, terms) {
  const of = (name) => terms.some((term) => term === name || term.startsWith(`${name}[`));
  return Object.entries(content.definitions)
    .filter(([name]) => of(name))
    .map(([, line]) => shown(line));
}

// The lines that the command line prints below its table.
function footnotes(fit, content) {
  const defined = definitionLines(content, [fit.formula.response, ...fit.formula.regressors]);
  if (!fit.hasIntervals) {
    return [
      rSquaredText(fit),
      `Privacy Error is the standard error that the privacy noise makes; kappa_w = ${general(fit.kappa_w, 3)}`,
      `No standard errors or intervals: ${fit.noIntervals}.`,
      ...defined,
    ].filter(Boolean);
  }
  const shares = fit.terms.map((row) => (row.privacy_std_error / row.std_error) ** 2),
    most = Math.max(...shares);
  const test = fit.f,
    p = test && pText(test.p_value);
  return [
    CODES,
    `Residual standard error: ${digits(fit.residual_std_error, 5)} on ${whole(fit.df)} ${fit.weighted ? "effective " : ""}degrees of freedom (corrected for privacy noise)`,
    rSquaredText(fit),
    fit.weighted &&
      `Effective rows: about ${whole(fit.n_effective)}, as many as rows of equal weight would be: (Σw)²/Σw²`,
    test &&
      `F: ${general(test.statistic, 5)} on ${test.df_num} and ${whole(test.df_denom)} df, p ${p.startsWith("<") ? p : `= ${p}`} (Wald test, privacy noise included)`,
    `Privacy noise is in every Std. Error: ${most > 1e-4 ? `at most ${general(Math.min(100, 100 * most), 3)}%` : "less than 0.01%"} of its square; kappa_w = ${general(fit.kappa_w, 3)}`,
    ...(fit.assumptions ?? content.assumptions),
    ...defined,
  ].filter(Boolean);
}

// Slopes times the width of their column's bounds, so that columns in different units can be compared.
function effects(fit, columns) {
  const widths = new Map(
    columns.flatMap((column) =>
      column.terms.map((term) => [term, column.lower === undefined ? 1 : column.upper - column.lower]),
    ),
  );
  return fit.terms
    .filter((row) => row.term !== INTERCEPT)
    .map((row) => {
      const width = widths.get(row.term) ?? 1;
      return { term: shown(row.term), value: row.estimate * width, low: row.ci_low * width, high: row.ci_high * width };
    });
}

function coefficientPlot(fit, columns, response) {
  const rows = effects(fit, columns);
  if (!rows.length) return null;
  const level = general(100 * fit.level, 6);
  const what = `Change in ${shown(response)} across each column’s bounds, with ${level}% intervals`;
  const picture = responsive(`${what}. The numbers follow.`, (width) => forest(rows, width));
  return el(
    "figure",
    {},
    el(
      "figcaption",
      {},
      what,
      el(
        "span",
        { class: "hint" },
        "From the lower to the upper bound of a number; for a category, against the one that is left out.",
      ),
    ),
    picture,
    numbersOf(
      what,
      ["Term", "Change", "Low", "High"],
      rows.map((row) => [row.term, ...[row.value, row.low, row.high].map((v) => digits(v, 5))]),
    ),
  );
}

function forest(rows, width) {
  const rowHeight = 26,
    top = 8,
    bottom = top + rows.length * rowHeight;
  const left = Math.min(0.36 * width, 14 + 7.3 * Math.max(...rows.map((row) => row.term.length))),
    right = width - 14;
  const ends = rows.flatMap((row) => [row.low, row.high, row.value]).filter(Number.isFinite);
  const low = Math.min(0, ...ends),
    high = Math.max(0, ...ends),
    room = 0.04 * (high - low || 1);
  const x = scale([low - room, high + room], [left, right]);
  const marks = rows.map((row, i) => {
    const y = top + (i + 0.5) * rowHeight,
      known = Number.isFinite(row.low);
    return svg(
      "g",
      { class: known && row.low * row.high <= 0 ? "effect unsure" : "effect" },
      svg(
        "title",
        {},
        `${row.term}: ${digits(row.value, 5)}${known ? `, ${digits(row.low, 5)} to ${digits(row.high, 5)}` : ""}`,
      ),
      svg("rect", { x: 0, y: y - rowHeight / 2, width, height: rowHeight, class: "hit" }),
      label(left - 10, y + 4, cut(row.term, left - 10), { "text-anchor": "end" }),
      known
        ? svg("path", {
            d: `M${x(row.low)} ${y - 5}V${y + 5}M${x(row.low)} ${y}H${x(row.high)}M${x(row.high)} ${y - 5}V${y + 5}`,
            class: "interval",
          })
        : null,
      svg("circle", { cx: x(row.value), cy: y, r: 4.5 }),
    );
  });
  return canvas(
    width,
    bottom + 26,
    svg(
      "g",
      { class: "axis" },
      ticks(low, high, width / 110)
        .map((value) => [
          svg("line", { x1: x(value), x2: x(value), y1: top, y2: bottom, class: value === 0 ? "zero" : "grid" }),
          label(x(value), bottom + 18, short(value), { "text-anchor": "middle" }),
        ])
        .flat(),
    ),
    marks,
  );
}
