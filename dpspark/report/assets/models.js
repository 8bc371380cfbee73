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

const answered = (fit) => String(fit.status).toUpperCase() === "OK",
  errorsOf = (fit) => fit.terms.some((row) => row.std_error > 0),
  kindOfErrors = (fit) => (answered(fit) && errorsOf(fit) ? (fit.errors ?? "") : ""),
  countedAs = (fit) => {
    const what = fit.n_is ?? (fit.weighted ? "sum of weights" : "rows");
    return `${what[0].toUpperCase()}${what.slice(1)}`;
  };

// Why there is no answer, or one without standard errors.
function whyNot(fit) {
  if (answered(fit)) return `No standard errors or intervals: ${fit.noIntervals}.`;
  const reason = `${String(fit.reason ?? fit.status).replace(/\.+$/, "")}.`;
  return String(fit.status).toUpperCase().startsWith("NOT") ? `not identified: ${reason}` : reason;
}

// The release that a model is from, with its guarantee and whom that is for.
function sourceOf(fit, content) {
  const record = content.record ? `; a record is ${shown(content.record)}` : "",
    group = content.group_by.map((name, i) => `, ${shown(name)}=${shown(fit.group[i])}`).join("");
  return `Release ${shown(content.name)}${group}: ${content.cost}${record}`;
}

// Rows of cells: above the coefficients, the coefficients, and facts of each model; then the lines below.
function modelTable(fits, content) {
  const named = new Set(fits.flatMap((fit) => fit.terms.map((row) => row.term))),
    terms = [...[...named].filter((term) => term !== INTERCEPT), ...(named.has(INTERCEPT) ? [INTERCEPT] : [])],
    labels = fits.map((_, i) => `(${i + 1})`),
    known = (value, text) => (Number.isFinite(value) ? text(value) : "");
  const foot = [
    [countedAs(fits[0]), ...fits.map((fit) => known(fit.n, (n) => whole(Math.max(0, n))))],
    ["R-squared", ...fits.map((fit) => known(fit.r_squared, (value) => fixed(value, 4)))],
    ["Residual std. error", ...fits.map((fit) => known(fit.residual_std_error, (value) => general(value, 5)))],
    ["Std. errors", ...fits.map(kindOfErrors)],
  ];
  const refused = fits.flatMap((fit, i) =>
    answered(fit) && errorsOf(fit) ? [] : [`${labels[i]}: ${whyNot(fit)}`],
  );
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
      `${sourceOf(fits[0], content)}.`,
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
    button("CSV", "csv", "text/csv", () => csvOf(fits, content)),
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

// A row for each coefficient of each model, with all digits; as `dpspark table --to csv`, and with its backticks around names
// that would begin a formula of a spreadsheet.
function csvOf(fits, content) {
  const field = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value),
    number = (value) => (Number.isFinite(value) ? String(value) : ""),
    plain = (name) => (/^[=+\-@\t\r]/.test(name) ? `\`${name}\`` : name);
  const rows = fits.flatMap((fit, i) =>
    fit.terms.map((row) => [
      `(${i + 1})`,
      plain(fit.formula.response),
      plain(row.term),
      ...[row.estimate, row.std_error, row.t, row.p_value, row.ci_low, row.ci_high].map(number),
      kindOfErrors(fit),
      sourceOf(fit, content),
    ]),
  );
  const numbers = ["estimate", "std_error", "statistic", "p_value", "ci_low", "ci_high"],
    heads = ["model", "response", "term", ...numbers, "errors", "release"];
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

// A cell that begins with [ or * is no option of the line above.
function latexText(text) {
  const plain = [...text].map((letter) => LATEX[letter] ?? letter).join("");
  return /^[[*]/.test(plain) ? `{}${plain}` : plain;
}

// For the package booktabs, to be put into a document by \input; as `dpspark table --to tex`.
function latexOf({ head, body, foot, notes }) {
  const row = (cells) => `${cells.map(latexText).join(" & ")} \\\\`,
    width = head[0].length,
    long = body.some(([name]) => name.length > 40);
  return [
    "\\begin{tabular}{@{}l@{}}",
    `\\begin{tabular}{${long ? "p{0.4\\linewidth}" : "l"}${"r".repeat(width - 1)}}`,
    "\\toprule",
    ...head.map(row),
    "\\midrule",
    ...body.map(row),
    "\\midrule",
    ...foot.map(row),
    "\\bottomrule",
    "\\end{tabular} \\\\[1ex]",
    "\\begin{minipage}[t]{0.9\\linewidth}\\footnotesize\\raggedright",
    ...notes.map((note) => `${latexText(note)}\\par`),
    "\\end{minipage}",
    "\\end{tabular}",
    "",
  ].join("\n");
}
