// A map of the areas: drawn on a canvas, moved by dragging, coloured by one of the columns.

const PALETTE = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
const MOST_ZOOM = 64;

// Areas as whole numbers of seven bits a byte: group, rings, points, steps.
function shapesOf(map) {
  const bytes = bytesOf(map.shapes),
    found = [];
  let at = 0,
    x = 0,
    y = 0;
  const next = () => {
    let value = 0,
      shift = 0;
    for (;;) {
      const byte = bytes[at++];
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return value;
      shift += 7;
    }
  };
  const step = () => {
    const value = next();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  };
  for (let i = 0; i < map.areas; i += 1) {
    const group = next() - 1,
      path = new Path2D(),
      box = [Infinity, Infinity, -Infinity, -Infinity];
    for (let rings = next(); rings > 0; rings -= 1) {
      const points = next();
      for (let p = 0; p < points; p += 1) {
        x += step();
        y += step();
        if (p) path.lineTo(x, y);
        else path.moveTo(x, y);
        box[0] = Math.min(box[0], x);
        box[1] = Math.min(box[1], y);
        box[2] = Math.max(box[2], x);
        box[3] = Math.max(box[3], y);
      }
      path.closePath();
    }
    found.push({ group, path, box });
  }
  return found;
}

function colourAt(share) {
  const place = Math.min(1, Math.max(0, share)) * (PALETTE.length - 1),
    low = Math.min(PALETTE.length - 2, Math.floor(place)),
    part = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16);
  const mixed = [0, 1, 2].map((i) =>
    Math.round(part(PALETTE[low], i) + (place - low) * (part(PALETTE[low + 1], i) - part(PALETTE[low], i))),
  );
  return `rgb(${mixed.join(",")})`;
}

// From the 2nd to the 98th of a hundred: a few extreme values must not take all colours.
function middleRange(values) {
  const sorted = Float64Array.from(values.filter(Number.isFinite)).sort();
  if (!sorted.length) return [0, 1];
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  return at(0.02) < at(0.98) ? [at(0.02), at(0.98)] : [sorted[0], sorted[sorted.length - 1] || sorted[0] + 1];
}

class AreaMap {
  // `layers` are { label, values, range, hidden(i) }; `names` of the groups; `choose(i)` is told of clicks.
  constructor(map, names, choose) {
    Object.assign(this, { map, names, choose, shapes: shapesOf(map), layers: [], zoom: 1, centre: null, chosen: -1 });
    this.canvas = el("canvas", { tabindex: "0", role: "img" });
    this.select = el("select", { id: newId(), onchange: () => this.draw() });
    this.legend = el("div");
    this.place = el("p", { class: "hint", role: "status" });
    const button = (words, change) => el("button", { type: "button", onclick: change }, words);
    const times = (factor) => () => {
      this.zoom = Math.min(MOST_ZOOM, Math.max(1, this.zoom * factor));
      if (this.zoom === 1) this.centre = null;
      this.draw();
    };
    this.node = el(
      "figure",
      { class: "map" },
      el("figcaption", {}, "Map", el("span", { class: "hint" }, "Drag to move; click an area to see it.")),
      el("div", { class: "field" }, el("label", { for: this.select.id }, "Colour by"), this.select),
      el("p", { class: "pager" }, button("Zoom in", times(2)), button("Zoom out", times(0.5)), button("All", times(0))),
      this.canvas,
      this.legend,
      this.place,
    );
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  listen() {
    let from = null,
      moved = false;
    this.canvas.addEventListener("pointerdown", (event) => {
      from = [event.offsetX, event.offsetY];
      moved = false;
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!from) return;
      const by = [event.offsetX - from[0], event.offsetY - from[1]];
      if (!moved && Math.hypot(...by) < 4) return;
      moved = true;
      from = [event.offsetX, event.offsetY];
      this.centre = [this.middle[0] - by[0] / this.scale, this.middle[1] - by[1] / this.scale];
      this.draw();
    });
    this.canvas.addEventListener("pointerleave", () => (from = null));
    this.canvas.addEventListener("pointerup", (event) => {
      const click = from && !moved;
      from = null;
      if (!click) return;
      const found = this.at(event.offsetX, event.offsetY);
      if (found) this.choose(found.group);
      else this.place.textContent = "No area of the release is there.";
    });
  }

  get middle() {
    return this.centre ?? [this.map.size[0] / 2, this.map.size[1] / 2];
  }

  at(left, top) {
    const x = this.middle[0] + (left - this.canvas.clientWidth / 2) / this.scale,
      y = this.middle[1] + (top - this.canvas.clientHeight / 2) / this.scale,
      context = this.canvas.getContext("2d");
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    const found = this.shapes.find(
      ({ group, path, box }) =>
        group >= 0 &&
        box[0] <= x &&
        x <= box[2] &&
        box[1] <= y &&
        y <= box[3] &&
        context.isPointInPath(path, x, y, "evenodd"),
    );
    context.restore();
    return found;
  }

  show(layers) {
    const before = this.select.value || "1";
    this.layers = layers;
    this.select.replaceChildren(...layers.map((layer, i) => el("option", { value: String(i) }, layer.label)));
    this.select.value = before;
    this.draw();
  }

  mark(i) {
    this.chosen = i;
    this.draw();
  }

  draw() {
    const width = Math.floor(this.canvas.clientWidth),
      layer = this.layers[Number(this.select.value)];
    if (width < 1 || !layer) return;
    const [w, h] = this.map.size,
      height = Math.round(Math.min(620, Math.max(200, (width * h) / w))),
      sharp = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * sharp) || this.canvas.height !== Math.round(height * sharp)) {
      this.canvas.width = Math.round(width * sharp);
      this.canvas.height = Math.round(height * sharp);
      this.canvas.style.height = `${height}px`;
    }
    this.scale = Math.min((width - 8) / w, (height - 8) / h) * this.zoom;
    const style = getComputedStyle(this.canvas),
      context = this.canvas.getContext("2d"),
      s = this.scale * sharp,
      [x, y] = this.middle;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(s, 0, 0, s, (width / 2) * sharp - x * s, (height / 2) * sharp - y * s);
    const [low, high] = layer.range,
      none = style.getPropertyValue("--line"),
      reach = [width / 2 / this.scale, height / 2 / this.scale];
    context.lineWidth = 0.5 / this.scale;
    context.strokeStyle = style.getPropertyValue("--card");
    let chosen = null,
      seen = 0;
    for (const shape of this.shapes) {
      const { group, path, box } = shape;
      if (box[2] < x - reach[0] || box[0] > x + reach[0] || box[3] < y - reach[1] || box[1] > y + reach[1]) continue;
      const value = group < 0 ? NaN : layer.values[group];
      context.fillStyle = Number.isFinite(value) ? colourAt((value - low) / (high - low)) : none;
      context.fill(path, "evenodd");
      if ((seen += 1) < 5000) context.stroke(path);
      if (group >= 0 && group === this.chosen) chosen = shape;
    }
    if (chosen) {
      context.lineWidth = 3 / this.scale;
      context.strokeStyle = style.getPropertyValue("--ink");
      context.stroke(chosen.path);
    }
    this.describe(layer, [low, high]);
  }

  describe(layer, [low, high]) {
    const { missing, others } = this.map;
    this.canvas.setAttribute("aria-label", `Map coloured by ${layer.label}. The numbers are in the table.`);
    this.legend.replaceChildren(layer.flags ? flagLegend(layer.flags) : colourLegend(low, high, layer.label));
    this.place.textContent = [
      this.chosen < 0 ? "" : `${this.names[this.chosen]}: ${layer.text(this.chosen)}.`,
      missing ? `${whole(missing)} groups are not on the map.` : "",
      others ? `${whole(others)} areas of the map are not in the release.` : "",
    ]
      .filter(Boolean)
      .join(" ");
  }
}

function colourLegend(low, high, title) {
  const width = 320,
    x = scale([low, high], [10, width - 10]),
    part = (width - 20) / 64;
  return canvas(
    width,
    52,
    Array.from({ length: 64 }, (_, i) =>
      svg("rect", { x: 10 + i * part, y: 4, width: part + 0.5, height: 12, fill: colourAt((i + 0.5) / 64) }),
    ),
    svg(
      "g",
      { class: "axis" },
      ticks(low, high, 4).map((value) => label(x(value), 30, short(value), { "text-anchor": "middle" })),
      label(width / 2, 48, cut(title, width), { "text-anchor": "middle", class: "axis-title" }),
    ),
  );
}

function flagLegend(flags) {
  return canvas(
    320,
    24,
    flags.map((name, i) => [
      svg("rect", { x: 10 + i * 130, y: 5, width: 14, height: 14, fill: colourAt(i) }),
      svg("g", { class: "axis" }, label(30 + i * 130, 17, name)),
    ]).flat(),
  );
}
