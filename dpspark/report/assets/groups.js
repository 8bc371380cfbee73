// A row for each of many groups: sorted, filtered, a page at a time; how a column is distributed; one group by itself.

const PAGE = 20, BINS = 40;

// `detail(i)` shows one group; `columns` are { label, values }.
function groupsView(content, columns, detail) {
  const keys = content.keys.map(namesOf), count = content.count;
  const names = Array.from({ length: count }, (_, i) => keys.map((of) => shown(of[i])).join(", ") || "all rows");
  const statuses = bytesOf(content.status), status = (i) => content.statuses[statuses[i]] ?? "other";
  const state = { order: names.map((_, i) => i), sort: null, down: false, page: 0, chosen: 0, text: "" };
  const note = content.left_out
    ? el("p", { class: "note" }, `${whole(content.left_out)} groups are not in this page, for its size. The tables of the release have them.`)
    : null;
  if (!content.group_by.length) return el("div", {}, detail(0, "all rows"), valueTable(columns));

  const body = el("tbody"), pager = el("p", { class: "pager" }), live = el("p", { class: "visually-hidden", role: "status" });
  const single = el("div", { class: "detail" });
  const spread = distribution(columns, () => state.chosen, names);
  const heads = [
    { label: content.group_by.map(shown).join(", "), key: (i) => names[i], text: true },
    ...columns.map((column) => ({ label: column.label, key: (i) => column.values[i] })),
    { label: "status", key: status, text: true },
  ];
  const headCells = heads.map((head, h) => el("th", { scope: "col", class: head.text ? null : "number" },
    el("button", { type: "button", class: "sort", onclick: () => sortBy(h) }, shown(head.label), el("span", { class: "arrow", "aria-hidden": "true" }))));

  function sortBy(h) {
    state.down = state.sort === h ? !state.down : false;
    state.sort = h;
    headCells.forEach((cell, i) => (i === h ? cell.setAttribute("aria-sort", state.down ? "descending" : "ascending") : cell.removeAttribute("aria-sort")));
    arrange(`Sorted by ${shown(heads[h].label)}, ${state.down ? "largest" : "smallest"} first.`);
  }

  function arrange(words) {
    const text = state.text.toLowerCase(), found = [];
    for (let i = 0; i < count; i += 1) if (!text || names[i].toLowerCase().includes(text)) found.push(i);
    if (state.sort !== null) {
      const { key, text: asText } = heads[state.sort], sign = state.down ? -1 : 1;
      const values = found.map((i) => [i, key(i)]);
      // What is not known comes last, either way.
      values.sort(([, a], [, b]) => (asText ? sign * (a < b ? -1 : a > b ? 1 : 0) : Number.isNaN(a) - Number.isNaN(b) || sign * (a - b) || 0));
      state.order = values.map(([i]) => i);
    } else state.order = found;
    state.page = 0;
    live.textContent = `${words} ${whole(found.length)} groups.`;
    drawRows();
  }

  function drawRows() {
    const first = state.page * PAGE, pages = Math.max(1, Math.ceil(state.order.length / PAGE));
    body.replaceChildren(...state.order.slice(first, first + PAGE).map((i) => el("tr", { class: i === state.chosen ? "chosen" : null },
      el("th", { scope: "row" }, el("button", { type: "button", class: "link", "aria-pressed": String(i === state.chosen), onclick: () => choose(i) }, names[i])),
      columns.map((column) => numberCell(column.values[i], digits(column.values[i], 6))),
      el("td", {}, shown(status(i))))));
    const turn = (words, to) => el("button", { type: "button", disabled: to < 0 || to >= pages, onclick: () => { state.page = to; drawRows(); } }, words);
    const at = document.activeElement?.closest(".pager") ? document.activeElement.textContent : null;
    pager.replaceChildren(turn("First", state.page ? 0 : -1), turn("Back", state.page - 1),
      el("span", {}, state.order.length ? `${whole(first + 1)}–${whole(Math.min(first + PAGE, state.order.length))} of ${whole(state.order.length)}` : "none"),
      turn("Next", state.page + 1), turn("Last", state.page < pages - 1 ? pages - 1 : -1));
    if (at) [...pager.querySelectorAll("button")].find((button) => button.textContent === at)?.focus();
  }

  function choose(i) {
    state.chosen = i;
    single.replaceChildren(detail(i, names[i]));
    spread.redraw();
    drawRows();
    [...body.querySelectorAll("button.link")].find((button) => button.getAttribute("aria-pressed") === "true")?.focus();
  }

  const id = newId();
  const filter = el("input", { type: "search", id, autocomplete: "off", oninput: () => { state.text = filter.value; arrange("Filtered."); } });
  const caption = `${whole(count)} groups by ${content.group_by.map(shown).join(", ")}`;
  const table = el("table", { class: "groups" }, el("caption", {}, caption), el("thead", {}, el("tr", {}, headCells)), body);
  drawRows();
  single.append(detail(0, names[0]));
  return el("div", {}, note,
    el("div", { class: "field" }, el("label", { for: id }, "Find a group"), filter),
    live, scrolling(table, caption), pager, single, spread.node);
}

function valueTable(columns) {
  const caption = "As released";
  const rows = columns.map((column) => el("tr", {}, el("th", { scope: "row" }, shown(column.label)), numberCell(column.values[0], digits(column.values[0], 6))));
  return scrolling(el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "What"), el("th", { scope: "col", class: "number" }, "Value"))), el("tbody", {}, rows)), caption);
}

function distribution(columns, chosen, names) {
  const id = newId(), box = el("div");
  const select = el("select", { id, onchange: () => redraw() }, columns.map((column, i) => el("option", { value: String(i) }, shown(column.label))));
  function redraw() {
    const column = columns[Number(select.value)], values = Array.from(column.values).filter(Number.isFinite);
    const what = `How ${shown(column.label)} is spread over the groups`;
    if (!values.length) return box.replaceChildren(el("p", { class: "note" }, "No group has a value."));
    const bins = histogram(values), mark = column.values[chosen()];
    const picture = responsive(`${what}. The numbers follow.`, (width) => drawBins(bins, mark, names[chosen()], shown(column.label), width));
    box.replaceChildren(el("figure", {},
      el("figcaption", {}, what, el("span", { class: "hint" }, "The privacy noise is part of this spread.")),
      picture,
      numbersOf(what, ["From", "To", "Groups"], bins.counts.map((n, i) => [digits(bins.low + i * bins.step, 5), digits(bins.low + (i + 1) * bins.step, 5), whole(n)]))));
    return undefined;
  }
  redraw();
  return { node: el("div", {}, el("div", { class: "field" }, el("label", { for: id }, "Distribution of"), select), box), redraw };
}

function histogram(values) {
  const sorted = Float64Array.from(values).sort(), least = sorted[0], most = sorted[sorted.length - 1];
  const step = niceStep((most - least || 1) / BINS), low = Math.floor(least / step) * step;
  const counts = new Array(Math.floor((most - low) / step) + 1).fill(0);
  for (const value of sorted) counts[Math.min(counts.length - 1, Math.floor((value - low) / step))] += 1;
  return { low, step, counts };
}

function drawBins({ low, step, counts }, mark, name, title, width) {
  const height = 240, left = 50, right = width - 14, top = 24, bottom = height - 48, high = low + counts.length * step;
  const x = scale([low, high], [left, right]), y = scale([0, Math.max(...counts)], [bottom, top]);
  const bars = counts.map((n, i) => svg("rect", { x: x(low + i * step) + 0.5, y: y(n), width: Math.max(0.5, x(step + low) - x(low) - 1), height: bottom - y(n), class: "bar" },
    svg("title", {}, `${digits(low + i * step, 5)} to ${digits(low + (i + 1) * step, 5)}: ${whole(n)}`)));
  const pointer = Number.isFinite(mark)
    ? [svg("line", { x1: x(mark), x2: x(mark), y1: top - 6, y2: bottom, class: "now" }), label(Math.min(Math.max(x(mark), left + 60), right - 60), top - 10, cut(name, 160), { "text-anchor": "middle", class: "now-text" })]
    : [];
  return canvas(width, height, bottomAxis(x, ticks(low, high, width / 110), top, bottom, title, left + right),
    leftAxis(y, ticks(0, Math.max(...counts), 4).filter(Number.isInteger), left, right), bars, pointer);
}

function linesView(content) {
  const columns = content.columns.map((column) => ({ ...column, values: singlesOf(column.values) }));
  const find = (of, at) => columns.find((column) => column.of === of && column.cut === at)?.values;
  const detail = (i, name) => {
    const points = content.cuts.map((x, k) => ({ x, value: find("estimate", k)[i], low: find("ci_low", k)?.[i] ?? NaN, high: find("ci_high", k)?.[i] ?? NaN }));
    const line = { slope: columns.find((c) => c.of === "slope").values[i], intercept: columns.find((c) => c.of === "intercept").values[i] };
    const what = `${shown(content.y)} against ${shown(content.x)}: ${name}`;
    return el("figure", {}, el("figcaption", {}, what),
      responsive(`${what}. The numbers are in the table.`, (width) => drawLine(content, points, line, width)));
  };
  return groupsView(content, columns, detail);
}

function drawLine(content, points, line, width) {
  const height = 260, left = 62, right = width - 14, top = 12, bottom = height - 48, [from, to] = content.x_bounds;
  const at = (x) => line.intercept + line.slope * x;
  const ends = [at(from), at(to), ...points.flatMap((p) => [p.value, p.low, p.high])].filter(Number.isFinite);
  if (!ends.length) return canvas(width, 40, label(12, 24, "This group has no line: see its status."));
  const low = Math.min(...ends), high = Math.max(...ends), room = 0.08 * (high - low || 1);
  const x = scale([from, to], [left, right]), y = scale([low - room, high + room], [bottom, top]);
  const marks = points.filter((p) => Number.isFinite(p.value)).map((p) => svg("g", { class: "effect" },
    svg("title", {}, `${short(p.x)}: ${digits(p.value, 5)}`),
    Number.isFinite(p.low) ? svg("path", { d: `M${x(p.x) - 5} ${y(p.low)}h10M${x(p.x)} ${y(p.low)}V${y(p.high)}M${x(p.x) - 5} ${y(p.high)}h10`, class: "interval" }) : null,
    svg("circle", { cx: x(p.x), cy: y(p.value), r: 4.5 })));
  return canvas(width, height, bottomAxis(x, ticks(from, to, width / 110), top, bottom, shown(content.x), left + right),
    leftAxis(y, ticks(low - room, high + room, 5), left, right),
    Number.isFinite(line.slope) ? svg("g", { class: "c0" }, svg("line", { x1: x(from), x2: x(to), y1: y(at(from)), y2: y(at(to)), class: "curve" })) : null, marks);
}

function quantilesView(content) {
  const columns = content.columns.map((column) => ({ ...column, values: singlesOf(column.values) }));
  const bounds = new Map(content.bounds.map((column) => [column.name, [column.lower, column.upper]]));
  const detail = (i, name) => el("div", { class: "panels" }, [...new Set(columns.map((column) => column.column))].map((column) => {
    const points = columns.filter((c) => c.column === column).map((c) => ({ p: c.probability, value: c.values[i] })).sort((a, b) => a.p - b.p);
    const what = `Quantiles of ${shown(column)}: ${name}`;
    return el("figure", {}, el("figcaption", {}, what),
      responsive(`${what}. The numbers are in the table.`, (width) => drawQuantiles(points, bounds.get(column), shown(column), width)));
  }));
  return groupsView(content, columns, detail);
}

function drawQuantiles(points, range, name, width) {
  const height = 240, left = 44, right = width - 14, top = 12, bottom = height - 48, values = points.map((p) => p.value);
  const [low, high] = range?.[0] === undefined ? [Math.min(...values), Math.max(...values)] : range;
  const x = scale([low, high], [left, right]), y = scale([0, 1], [bottom, top]);
  return canvas(width, height, bottomAxis(x, ticks(low, high, width / 110), top, bottom, name, left + right), leftAxis(y, [0, 0.25, 0.5, 0.75, 1], left, right),
    svg("g", { class: "c0" }, svg("path", { d: points.map((p, i) => `${i ? "L" : "M"}${x(p.value)} ${y(p.p)}`).join(""), class: "curve" }),
      points.map((p) => svg("g", {}, svg("title", {}, `${p.p}: ${digits(p.value, 6)}`), markers[0](x(p.value), y(p.p))))));
}
