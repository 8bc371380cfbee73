// How a column is distributed over the groups.

const BINS = 40;

class Distribution {
  // `weak` of the groups are weakly identified.
  constructor(columns, weak, chosen) {
    Object.assign(this, { columns, weak, chosen, box: el("div") });
    this.select = el(
      "select",
      { id: newId(), onchange: () => this.draw() },
      columns.map((column, i) => el("option", { value: String(i) }, shown(column.label))),
    );
    this.node = el(
      "div",
      {},
      el("div", { class: "field" }, el("label", { for: this.select.id }, "Distribution of"), this.select),
      this.box,
    );
    this.draw();
  }

  draw() {
    const column = this.columns[Number(this.select.value)],
      name = shown(column.label),
      chosen = this.chosen();
    const values = column.values.filter(Number.isFinite);
    if (!values.length) return this.box.replaceChildren(el("p", { class: "note" }, "No group has a value."));
    const bins = histogram(values),
      what = `How ${name} is spread over the groups`,
      noise = "The privacy noise is part of this spread.",
      hint = this.weak ? `${noise} ${whole(this.weak)} of the groups are weakly identified.` : noise;
    const rows = bins.counts.map((n, i) => [
      digits(bins.low + i * bins.step, 5),
      digits(bins.low + (i + 1) * bins.step, 5),
      whole(n),
    ]);
    return this.box.replaceChildren(
      el(
        "figure",
        {},
        el("figcaption", {}, what, el("span", { class: "hint" }, hint)),
        responsive(`${what}. The numbers follow.`, (width) =>
          drawBins(bins, column.values[chosen.at], chosen.name, name, width),
        ),
        numbersOf(what, ["From", "To", "Groups"], rows),
      ),
    );
  }
}

function histogram(values) {
  const sorted = Float64Array.from(values).sort(),
    least = sorted[0],
    most = sorted[sorted.length - 1];
  const step = niceStep((most - least || 1) / BINS),
    low = Math.floor(least / step) * step;
  const counts = new Array(Math.floor((most - low) / step) + 1).fill(0);
  for (const value of sorted) counts[Math.min(counts.length - 1, Math.floor((value - low) / step))] += 1;
  return { low, step, counts };
}

function drawBins({ low, step, counts }, mark, name, title, width) {
  const height = 240,
    left = 50,
    right = width - 14,
    top = 24,
    bottom = height - 48,
    high = low + counts.length * step;
  const x = scale([low, high], [left, right]),
    y = scale([0, Math.max(...counts)], [bottom, top]);
  const bars = counts.map((n, i) =>
    svg(
      "rect",
      {
        x: x(low + i * step) + 0.5,
        y: y(n),
        width: Math.max(0.5, x(step + low) - x(low) - 1),
        height: bottom - y(n),
        class: "bar",
      },
      svg("title", {}, `${digits(low + i * step, 5)} to ${digits(low + (i + 1) * step, 5)}: ${whole(n)}`),
    ),
  );
  const pointer = Number.isFinite(mark)
    ? [
        svg("line", { x1: x(mark), x2: x(mark), y1: top - 6, y2: bottom, class: "now" }),
        label(Math.min(Math.max(x(mark), left + 60), right - 60), top - 10, cut(name, 160), {
          "text-anchor": "middle",
          class: "now-text",
        }),
      ]
    : [];
  return canvas(
    width,
    height,
    bottomAxis(x, ticks(low, high, width / 110), top, bottom, title, left + right),
    leftAxis(y, ticks(0, Math.max(...counts), 4).filter(Number.isInteger), left, right),
    bars,
    pointer,
  );
}
