// Correlations as a table whose cells have colours; one cell at a time can be reached with the keyboard.

const MOST_COLUMNS = 120,
  DENSE = 14;

function heatMap(moments) {
  const terms = moments.terms.slice(1, MOST_COLUMNS + 1).map(shown),
    { value, std } = correlate(moments, MOST_COLUMNS);
  const readout = el("p", { class: "readout" }, "Choose a cell.");
  const dense = terms.length > DENSE;
  const cells = terms.map((_, i) => terms.map((__, j) => heatCell(terms, value[i][j], std[i][j], i, j)));
  const table = el(
    "table",
    { class: dense ? "heat dense" : "heat" },
    el("caption", {}, "Correlations of the columns"),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("td"),
        terms.map((term) => el("th", { scope: "col" }, el("span", {}, term))),
      ),
    ),
    el(
      "tbody",
      {},
      terms.map((term, i) => el("tr", {}, el("th", { scope: "row", title: term }, term), cells[i])),
    ),
  );
  const choose = (i, j) => {
    table.querySelectorAll(".chosen").forEach((cell) => cell.classList.remove("chosen"));
    cells[i][j].classList.add("chosen");
    readout.textContent = bandText(terms, value[i][j], std[i][j], i, j);
  };
  let at = [0, 0];
  cells[0]?.[0]?.setAttribute("tabindex", "0");
  const position = (target) => {
    const cell = target.closest?.("td[data-at]");
    return cell ? cell.dataset.at.split(",").map(Number) : null;
  };
  table.addEventListener("mouseover", (event) => {
    const found = position(event.target);
    if (found) choose(...found);
  });
  table.addEventListener("focusin", (event) => {
    const found = position(event.target);
    if (!found) return;
    cells[at[0]][at[1]].setAttribute("tabindex", "-1");
    at = found;
    cells[at[0]][at[1]].setAttribute("tabindex", "0");
    choose(...at);
  });
  table.addEventListener("click", (event) => position(event.target) && event.target.closest("td").focus());
  table.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const end = { Home: [at[0], 0], End: [at[0], terms.length - 1] }[event.key];
    const found = end ?? (step && [at[0] + step[0], at[1] + step[1]]);
    if (!found || !position(event.target)) return;
    event.preventDefault();
    cells[found[0]]?.[found[1]]?.focus();
  });
  const more = moments.terms.length - 1 - terms.length;
  return el(
    "div",
    {},
    el("div", { class: "scroll" }, table),
    legend(),
    readout,
    more > 0
      ? el(
          "p",
          { class: "note" },
          `${whole(more)} more columns are not in this map: run dpspark covariance --correlation.`,
        )
      : null,
  );
}

function heatCell(terms, value, std, i, j) {
  const known = Number.isFinite(value),
    text = known ? fixed(value, 2) : "n/a";
  const cell = el(
    "td",
    {
      tabindex: "-1",
      "data-at": `${i},${j}`,
      "data-value": String(value),
      "data-std": String(std),
      class: `${!known ? "unknown" : value < 0 ? "negative" : "positive"}${Math.abs(value) < 2 * std ? " unsure" : ""}`,
      "aria-label": bandText(terms, value, std, i, j),
    },
    el("span", {}, text),
  );
  cell.style.setProperty("--size", `${known ? Math.min(100, 100 * Math.abs(value)).toFixed(1) : 0}%`);
  return cell;
}

function bandText(terms, value, std, i, j) {
  const pair = `${terms[i]} × ${terms[j]}`;
  if (!Number.isFinite(value)) return `${pair}: not known, the noise leaves no positive variance`;
  if (i === j) return `${pair}: 1`;
  const decimals = Math.min(6, Math.max(2, decimalsOf(std) - 1)),
    [low, high] = [value - 1.959964 * std, value + 1.959964 * std].map((end) => fixed(end, decimals));
  const unsure = Math.abs(value) < 2 * std ? "; cannot be told from 0" : "";
  return `${pair}: ${fixed(value, decimals)}, privacy noise ± ${general(std, 2)} (95% band ${low} to ${high})${unsure}`;
}

function legend() {
  const steps = [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1].map((value) => {
    const box = el("span", { class: value < 0 ? "negative" : "positive" });
    box.style.setProperty("--size", `${100 * Math.abs(value)}%`);
    return box;
  });
  return el(
    "div",
    { class: "legend", "aria-hidden": "true" },
    "−1",
    el("span", { class: "ramp" }, steps),
    "+1",
    el(
      "span",
      { class: "key" },
      el("i", { class: "unsure-key" }),
      "within two standard deviations of the noise from 0",
    ),
  );
}
