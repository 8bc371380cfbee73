// A row for each of many groups: sorted, filtered, a page at a time; how a column is distributed; one group by itself.

const PAGE = 20, BINS = 40;

// `detail(i, name)` shows one group; `columns` are { label, values }.
function groupsView(content, columns, detail) {
  if (!content.group_by.length) return el("div", {}, detail(0, "all rows"), valueTable(columns));
  return new GroupTable(content, columns, detail).node;
}

class GroupTable {
  constructor(content, columns, detail) {
    const keys = content.keys.map(namesOf), statuses = bytesOf(content.status);
    this.names = Array.from({ length: content.count }, (_, i) => keys.map((of) => shown(of[i])).join(", "));
    this.status = (i) => content.statuses[statuses[i]] ?? "other";
    Object.assign(this, { content, columns, detail, order: [], sort: null, down: false, page: 0, chosen: 0 });
    this.heads = [
      { label: content.group_by.map(shown).join(", "), key: (i) => this.names[i], text: true },
      ...columns.map((column) => ({ label: column.label, key: (i) => column.values[i] })),
      { label: "status", key: this.status, text: true },
    ];
    this.headCells = this.heads.map((head, h) => el("th", { scope: "col", class: head.text ? null : "number" },
      el("button", { type: "button", class: "sort", onclick: () => this.sortBy(h) },
        shown(head.label), el("span", { class: "arrow", "aria-hidden": "true" }))));
    this.filter = el("input", { type: "search", id: newId(), autocomplete: "off", oninput: () => this.arrange("Filtered.") });
    this.body = el("tbody");
    this.pager = el("p", { class: "pager" });
    this.live = el("p", { class: "visually-hidden", role: "status" });
    this.single = el("div", { class: "detail" }, detail(0, this.names[0]));
    this.spread = new Distribution(columns, () => ({ at: this.chosen, name: this.names[this.chosen] }));
    this.arrange("");
    this.node = this.layout();
  }

  layout() {
    const { content } = this, caption = `${whole(content.count)} groups by ${content.group_by.map(shown).join(", ")}`;
    const table = el("table", { class: "groups" },
      el("caption", {}, caption), el("thead", {}, el("tr", {}, this.headCells)), this.body);
    const note = content.left_out
      ? el("p", { class: "note" }, `${whole(content.left_out)} groups are not in this page, for its size. The tables of the release have them.`)
      : null;
    return el("div", {}, note,
      el("div", { class: "field" }, el("label", { for: this.filter.id }, "Find a group"), this.filter),
      this.live, scrolling(table, caption), this.pager, this.single, this.spread.node);
  }

  sortBy(h) {
    this.down = this.sort === h && !this.down;
    this.sort = h;
    for (const cell of this.headCells) cell.removeAttribute("aria-sort");
    this.headCells[h].setAttribute("aria-sort", this.down ? "descending" : "ascending");
    this.arrange(`Sorted by ${shown(this.heads[h].label)}, ${this.down ? "largest" : "smallest"} first.`);
  }

  arrange(words) {
    const text = this.filter.value.toLowerCase();
    this.order = this.names.map((_, i) => i).filter((i) => !text || this.names[i].toLowerCase().includes(text));
    if (this.sort !== null) {
      const { key, text: asText } = this.heads[this.sort], sign = this.down ? -1 : 1;
      const order = asText
        ? (a, b) => sign * (a < b ? -1 : a > b ? 1 : 0)
        : (a, b) => Number.isNaN(a) - Number.isNaN(b) || sign * (a - b) || 0; // what is not known comes last, either way
      this.order = this.order.map((i) => [i, key(i)]).sort(([, a], [, b]) => order(a, b)).map(([i]) => i);
    }
    this.page = 0;
    if (words) this.live.textContent = `${words} ${whole(this.order.length)} groups.`;
    this.draw();
  }

  draw() {
    const first = this.page * PAGE, last = Math.min(first + PAGE, this.order.length);
    this.body.replaceChildren(...this.order.slice(first, last).map((i) => this.row(i)));
    const pages = Math.max(1, Math.ceil(this.order.length / PAGE)), focused = document.activeElement?.textContent;
    const inPager = this.pager.contains(document.activeElement);
    const turn = (words, to) => {
      const go = () => {
        this.page = to;
        this.draw();
      };
      return el("button", { type: "button", disabled: to === this.page || to < 0 || to >= pages, onclick: go }, words);
    };
    this.pager.replaceChildren(turn("First", 0), turn("Back", this.page - 1),
      el("span", {}, last ? `${whole(first + 1)}–${whole(last)} of ${whole(this.order.length)}` : "none"),
      turn("Next", this.page + 1), turn("Last", pages - 1));
    if (inPager) [...this.pager.querySelectorAll("button")].find((button) => button.textContent === focused)?.focus();
  }

  row(i) {
    const pressed = i === this.chosen, attributes = { type: "button", class: "link", "aria-pressed": String(pressed), onclick: () => this.choose(i) };
    return el("tr", { class: pressed ? "chosen" : null },
      el("th", { scope: "row" }, el("button", attributes, this.names[i])),
      this.columns.map((column) => numberCell(column.values[i], digits(column.values[i], 6))),
      el("td", {}, shown(this.status(i))));
  }

  choose(i) {
    this.chosen = i;
    this.single.replaceChildren(this.detail(i, this.names[i]));
    this.spread.draw();
    this.draw();
    this.body.querySelector("button[aria-pressed=true]")?.focus();
  }
}

function valueTable(columns) {
  const caption = "As released";
  const rows = columns.map((column) => el("tr", {}, el("th", { scope: "row" }, shown(column.label)), numberCell(column.values[0], digits(column.values[0], 6))));
  return scrolling(el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "What"), el("th", { scope: "col", class: "number" }, "Value"))), el("tbody", {}, rows)), caption);
}

class Distribution {
  constructor(columns, chosen) {
    Object.assign(this, { columns, chosen, box: el("div") });
    this.select = el("select", { id: newId(), onchange: () => this.draw() },
      columns.map((column, i) => el("option", { value: String(i) }, shown(column.label))));
    this.node = el("div", {}, el("div", { class: "field" }, el("label", { for: this.select.id }, "Distribution of"), this.select), this.box);
    this.draw();
  }

  draw() {
    const column = this.columns[Number(this.select.value)], name = shown(column.label), chosen = this.chosen();
    const values = column.values.filter(Number.isFinite);
    if (!values.length) return this.box.replaceChildren(el("p", { class: "note" }, "No group has a value."));
    const bins = histogram(values), what = `How ${name} is spread over the groups`;
    const rows = bins.counts.map((n, i) => [digits(bins.low + i * bins.step, 5), digits(bins.low + (i + 1) * bins.step, 5), whole(n)]);
    return this.box.replaceChildren(el("figure", {},
      el("figcaption", {}, what, el("span", { class: "hint" }, "The privacy noise is part of this spread.")),
      responsive(`${what}. The numbers follow.`, (width) => drawBins(bins, column.values[chosen.at], chosen.name, name, width)),
      numbersOf(what, ["From", "To", "Groups"], rows)));
  }
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
