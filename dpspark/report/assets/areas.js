// Smoothed groups: one number at a time in a table, a map, a funnel and a calibration plot.

function areasView(content) {
  const numbers = content.numbers.map((number) => areaNumber(content, number));
  const select = el(
    "select",
    { id: newId() },
    numbers.map((number, i) => el("option", { value: String(i) }, areaTitle(content, number))),
  );
  const box = el("div"),
    keys = content.keys.map(namesOf),
    names = Array.from({ length: content.count }, (_, i) => keys.map((of) => shown(of[i])).join(", "));
  let table = null,
    chosen = 0;
  const map = content.map ? new AreaMap(content.map, names, (i) => table.show(i)) : null;
  const draw = () => {
    const number = numbers[Number(select.value)],
      title = areaTitle(content, number);
    const detail = (i, name) => {
      chosen = i;
      map?.mark(i);
      return areaDetail(content, numbers, i, name);
    };
    table = new GroupTable(
      { ...content, statuses: number.statuses, status: number.status },
      areaColumns(content, number),
      detail,
    );
    if (chosen) table.show(chosen);
    map?.show(areaLayers(number));
    box.replaceChildren(
      el("p", {}, differences(content, number)),
      ...(map ? [map.node] : []),
      table.node,
      el("div", { class: "panels" }, funnelFigure(number, title), calibrationFigure(number, title)),
      badly(number, names, (i) => table.show(i)),
    );
  };
  select.addEventListener("change", draw);
  draw();
  return el(
    "div",
    {},
    numbers.length > 1 ? el("div", { class: "field" }, el("label", { for: select.id }, "Number shown"), select) : null,
    box,
    el(
      "div",
      { class: "foot" },
      content.notes.map((line) => el("p", {}, shown(line))),
      el("p", {}, `Marked as suppressed: ${shown(content.suppressed_if)}.`),
    ),
  );
}

const areaTitle = (content, number) =>
  content.label === "term" ? shown(number.name) : `${shown(content.label)} = ${shown(number.name)}`;

function areaNumber(content, number) {
  const values = Object.fromEntries(Object.entries(number.values).map(([name, packed]) => [name, singlesOf(packed)]));
  const { estimate, std_error: error } = values,
    codes = bytesOf(number.status);
  return {
    ...number,
    values,
    low: estimate.map((value, i) => value - content.reach * error[i]),
    high: estimate.map((value, i) => value + content.reach * error[i]),
    margin: error.map((value) => content.reach90 * value),
    cv: error.map((value, i) => value / Math.abs(estimate[i])),
    own: Float32Array.from(bytesOf(number.shrinkage), (value) => value / 200),
    suppressed: Float32Array.from(codes, (code) => Number(number.statuses[code].endsWith("suppressed"))),
    between: { std: number.std, low: number.low, high: number.high },
  };
}

function areaColumns(content, number) {
  const level = `${general(100 * content.level, 4)}%`;
  return [
    { label: "raw", values: number.values.raw },
    { label: "smoothed", values: number.values.estimate },
    { label: "std. error", values: number.values.std_error },
    { label: `${level} low`, values: number.low },
    { label: `${level} high`, values: number.high },
    { label: "± 90%", values: number.margin },
    { label: "CV", values: number.cv },
    { label: "shrinkage", values: number.own },
  ].map((column) => ({ ...column, digits: 4 }));
}

function areaLayers(number) {
  const { raw, estimate, std_error: error } = number.values,
    range = middleRange(estimate),
    plain = (values) => (i) => digits(values[i], 4);
  return [
    { label: "raw", values: raw, range, text: plain(raw) },
    { label: "smoothed", values: estimate, range, text: plain(estimate) },
    { label: "standard error", values: error, range: middleRange(error), text: plain(error) },
    {
      label: "suppressed",
      values: number.suppressed,
      range: [0, 1],
      flags: ["shown", "suppressed"],
      text: (i) => (number.suppressed[i] ? "suppressed" : "shown"),
    },
  ];
}

function differences(content, { between }) {
  const { std, low, high } = between,
    said = `${digits(std, 3)} (95%: ${digits(low, 3)} to ${digits(high, 3)})`;
  return low > 0
    ? `Standard deviation between groups: ${said}.`
    : `The groups do not differ measurably: the standard deviation between them is ${said}, and may be 0.`;
}

// One group: every number of it, raw and smoothed.
function areaDetail(content, numbers, i, name) {
  return el(
    "div",
    { class: "panels" },
    numbers.map((number) => {
      const what = `${areaTitle(content, number)}: ${name}`;
      return el(
        "figure",
        {},
        el("figcaption", {}, what),
        responsive(`${what}. The numbers are in the table.`, (width) => drawArea(number, i, width)),
      );
    }),
  );
}

function drawArea(number, i, width) {
  const { raw, estimate, expected } = number.values,
    ends = [raw[i], number.low[i], number.high[i], expected[i]].filter(Number.isFinite),
    low = Math.min(...ends),
    high = Math.max(...ends),
    room = 0.1 * (high - low || 1);
  const x = scale([low - room, high + room], [86, width - 14]),
    mark = (value, y) => (Number.isFinite(value) ? markers[0](x(value), y) : null);
  const rows = ["raw", "smoothed", "expected"];
  return canvas(
    width,
    150,
    bottomAxis(x, ticks(low - room, high + room, width / 130), 8, 102, "", 86 + width),
    svg("g", { class: "axis" }, rows.map((words, k) => label(76, 28 + 30 * k, words, { "text-anchor": "end" }))),
    svg("g", { class: "effect unsure" }, mark(raw[i], 24)),
    svg(
      "g",
      { class: "effect" },
      svg("path", {
        d: `M${x(number.low[i])} 49v10M${x(number.low[i])} 54H${x(number.high[i])}M${x(number.high[i])} 49v10`,
        class: "interval",
      }),
      mark(estimate[i], 54),
    ),
    svg("g", { class: "effect unsure" }, mark(expected[i], 84)),
  );
}

function badly(number, names, choose) {
  const title = "Groups that fit badly";
  if (!number.badly_count) return el("p", {}, "No group’s raw value is more than 4 standard deviations from the model.");
  const rows = number.badly.map(([i, off]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, el("button", { type: "button", class: "link", onclick: () => choose(i) }, names[i])),
      numberCell(number.values.raw[i], digits(number.values.raw[i], 4)),
      numberCell(number.values.estimate[i], digits(number.values.estimate[i], 4)),
      numberCell(off, fixed(off, 1)),
    ),
  );
  const heads = ["group", "raw", "smoothed", "off, in std. deviations"],
    more = number.badly_count > rows.length ? `, the first ${rows.length} of ${whole(number.badly_count)}` : "";
  const head = heads.map((words, k) => el("th", { scope: "col", class: k ? "number" : null }, words));
  return scrolling(
    el(
      "table",
      { class: "badly" },
      el("caption", {}, title + more),
      el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, rows),
    ),
    title,
  );
}
