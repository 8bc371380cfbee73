// Several regressions side by side, as `dpspark table` prints them, and files of them to take away.

const TABLE_STARS = [
    [0.001, "***"],
    [0.01, "**"],
    [0.05, "*"],
  ],
  TABLE_LEGEND = "*** p < 0.001, ** p < 0.01, * p < 0.05",
  TABLE_ERRORS = "Standard errors in parentheses; the privacy noise is in them.";

// One coefficient of one model, as it is printed; empty where the model does not have it.
function modelCell(fit, term) {
  const row = fit.terms.find((one) => one.term === term);
  if (!row || !Number.isFinite(row.estimate)) return ["", ""];
  if (!(row.std_error > 0)) return [general(row.estimate, 5), ""];
  const decimals = decimalsOf(row.std_error),
    marks = TABLE_STARS.find(([limit]) => row.p_value < limit)?.[1] ?? "";
  return [`${fixed(row.estimate, decimals)}${marks}`, `(${fixed(row.std_error, decimals)})`];
}

// Rows of cells: above the coefficients, the coefficients, and facts of each model; then the lines below.
function modelTable(fits, content) {
  const named = new Set(fits.flatMap((fit) => fit.terms.map((row) => row.term))),
    terms = [...[...named].filter((term) => term !== INTERCEPT), ...(named.has(INTERCEPT) ? [INTERCEPT] : [])],
    labels = fits.map((_, i) => `(${i + 1})`),
    answered = (fit) => String(fit.status).toUpperCase() === "OK",
    known = (value, text) => (Number.isFinite(value) ? text(value) : "");
  const foot = [
    ["Rows", ...fits.map((fit) => known(fit.n, (n) => whole(Math.max(0, n))))],
    ["R-squared", ...fits.map((fit) => known(fit.r_squared, (value) => fixed(value, 4)))],
    ["Residual std. error", ...fits.map((fit) => known(fit.residual_std_error, (value) => general(value, 5)))],
    ["Std. errors", ...fits.map((fit) => (answered(fit) ? (fit.errors ?? "") : ""))],
  ];
  const refused = fits.flatMap((fit, i) =>
    answered(fit) ? [] : [`${labels[i]}: not identified: ${fit.reason ?? fit.status}.`],
  );
  const record = content.record ? `; a record is ${shown(content.record)}` : "";
  const group = content.group_by.map((name, i) => `, ${shown(name)}=${shown(fits[0].group[i])}`).join("");
  return {
    head: [
      ["", ...labels],
      ["", ...fits.map((fit) => shown(fit.formula.response))],
    ],
    body: terms.flatMap((term) => {
      const cells = fits.map((fit) => modelCell(fit, term));
      return [
        [shown(term), ...cells.map(([estimate]) => estimate)],
        ["", ...cells.map(([, error]) => error)],
      ];
    }),
    foot: foot.filter(([, ...values]) => values.some(Boolean)),
    notes: [
      TABLE_LEGEND,
      TABLE_ERRORS,
      `Release ${shown(content.name)}${group}: ${content.cost}${record}.`,
      ...assumedOf(fits, labels, content),
      ...refused,
    ],
  };
}

// What is assumed, each line once; of which models, unless it is of all that have standard errors.
function assumedOf(fits, labels, content) {
  const stated = fits.map((fit) => (fit.terms.some((row) => row.std_error > 0) ? (fit.assumptions ?? content.assumptions) : []));
  return [...new Set(stated.flat())].map((line) => {
    const of = labels.filter((_, i) => stated[i].includes(line));
    return of.length === stated.filter((lines) => lines.length).length ? line : `${of.join(", ")}: ${line}`;
  });
}

// The table in the page, with buttons for its files.
function modelsView(fits, content) {
  const { head, body, foot, notes } = modelTable(fits, content);
  const row = (tag, scope) => ([first, ...rest]) =>
    el(
      "tr",
      {},
      first ? el("th", { scope }, first) : el("td", { class: "blank" }),
      rest.map((text) => el(tag, { class: "number", scope: tag === "th" ? "col" : null }, text)),
    );
  const table = el(
    "table",
    { class: "models" },
    el("caption", {}, "Regressions side by side"),
    el("thead", {}, row("th", "col")(head[0]), row("td", "row")(head[1])),
    el("tbody", {}, body.map(row("td", "row"))),
    el("tbody", { class: "facts-of" }, foot.map(row("td", "row"))),
  );
  return el(
    "article",
    { class: "beside" },
    el("h3", {}, "Side by side"),
    scrolling(table, "Regressions side by side"),
    el(
      "div",
      { class: "foot" },
      notes.map((line) => el("p", {}, line)),
    ),
    downloads(fits, content, "models"),
  );
}

function downloads(fits, content, what) {
  const name = `${content.address}-${what}`.replace(/[^\p{L}\p{N}._-]+/gu, "-");
  const button = (label, ending, kind, text) =>
    el("button", { type: "button", onclick: () => save(`${name}.${ending}`, kind, text()) }, label);
  return el(
    "div",
    { class: "buttons", role: "group", "aria-label": "Download this table" },
    el("span", { class: "hint" }, "Download"),
    button("CSV", "csv", "text/csv", () => csvOf(fits)),
    button("LaTeX", "tex", "application/x-tex", () => latexOf(modelTable(fits, content))),
  );
}

// A file made here: nothing is sent anywhere.
function save(name, kind, text) {
  const address = URL.createObjectURL(new Blob([text], { type: `${kind};charset=utf-8` })),
    link = el("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// A row for each coefficient of each model, with all digits; as `dpspark table --to csv`.
function csvOf(fits) {
  const field = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value),
    number = (value) => (Number.isFinite(value) ? String(value) : "");
  const rows = fits.flatMap((fit, i) =>
    fit.terms.map((row) => [
      `(${i + 1})`,
      fit.formula.response,
      row.term,
      ...[row.estimate, row.std_error, row.t, row.p_value, row.ci_low, row.ci_high].map(number),
    ]),
  );
  const heads = ["model", "response", "term", "estimate", "std_error", "statistic", "p_value", "ci_low", "ci_high"];
  return [heads, ...rows].map((cells) => `${cells.map(field).join(",")}\n`).join("");
}

const LATEX = {
  "\\": "\\textbackslash{}",
  "&": "\\&",
  "%": "\\%",
  $: "\\$",
  "#": "\\#",
  _: "\\_",
  "{": "\\{",
  "}": "\\}",
  "~": "\\textasciitilde{}",
  "^": "\\textasciicircum{}",
  "<": "\\textless{}",
  ">": "\\textgreater{}",
  "|": "\\textbar{}",
  "−": "$-$",
};

// A cell that begins with a bracket is no option of the line above.
function latexText(text) {
  const plain = [...text].map((letter) => LATEX[letter] ?? letter).join("");
  return plain.startsWith("[") ? `{}${plain}` : plain;
}

// For the package booktabs, to be put into a document by \input; as `dpspark table --to tex`.
function latexOf({ head, body, foot, notes }) {
  const row = (cells) => `${cells.map(latexText).join(" & ")} \\\\`,
    width = head[0].length,
    long = body.some(([name]) => name.length > 40);
  return [
    `\\begin{tabular}{${long ? "p{0.4\\linewidth}" : "l"}${"r".repeat(width - 1)}}`,
    "\\toprule",
    ...head.map(row),
    "\\midrule",
    ...body.map(row),
    "\\midrule",
    ...foot.map(row),
    "\\bottomrule",
    ...notes.map((note) => `\\multicolumn{${width}}{p{0.9\\linewidth}}{\\footnotesize ${latexText(note)}} \\\\`),
    "\\end{tabular}",
    "",
  ].join("\n");
}
