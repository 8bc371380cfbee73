// Elements. All text goes in as text: a name in a release may be a stranger's.

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// A name with what cannot be seen in it spelled out.
const shown = (name) => String(name).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

let counter = 0;
const newId = () => `id-${(counter += 1)}`;

const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const doublesOf = (text) => new Float64Array(bytesOf(text).buffer);
const singlesOf = (text) => new Float32Array(bytesOf(text).buffer);

// Each name is how much it shares with the one before, and the rest.
function namesOf(packed) {
  const found = [];
  let before = [];
  for (let i = 0; i < packed.length; i += 2) {
    before = [...before.slice(0, packed[i]), ...packed[i + 1]];
    found.push(before.join(""));
  }
  return found;
}

function numberCell(value, text) {
  const cell = el("td", {
    class: "number",
    "data-value": String(value),
    title: Number.isFinite(value) ? general(value, 8) : null,
  });
  cell.append(text);
  return cell;
}

// A table in a box of its own, which scrolls where the page is narrow.
function scrolling(table, label) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
}

// Numbers behind a plot.
function numbersOf(caption, heads, rows) {
  const body = rows.map(([first, ...rest]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, first),
      rest.map((cell) => el("td", { class: "number" }, cell)),
    ),
  );
  const head = heads.map((name, i) => el("th", { scope: "col", class: i ? "number" : null }, name));
  const table = el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  return el("details", {}, el("summary", {}, "Numbers in this plot"), scrolling(table, caption));
}
