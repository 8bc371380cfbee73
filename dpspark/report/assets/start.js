// Fill the page. What it computes with is at hand in the console, as `dpspark`.

const page = JSON.parse(document.getElementById("content").textContent);
const sections = Object.fromEntries(
  [...document.querySelectorAll("section")].map((section) => [section.id, section.querySelector(".fill")]),
);
const tools = { tail, studentReach };

if (page.kind === "gram") Object.assign(tools, gramView({ ...page.results, address: page.address }, sections));
if (page.kind === "regression")
  sections.coefficients.append(regressionView({ ...page.results, address: page.address }));
if (page.kind === "theil_sen") sections.lines.append(linesView(page.results));
if (page.kind === "quantiles") sections.quantiles.append(quantilesView(page.results));
if (page.areas) sections.areas.append(areasView(page.areas));
errorCurves(page.errors, sections.errors);
window.dpspark = Object.freeze(tools);
