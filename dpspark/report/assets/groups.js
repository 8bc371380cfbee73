// A row for each of many groups: sorted, filtered, a page at a time; and one of them by itself.

const PAGE = 20;
const WEAK = "weakly_identified"; // a line that the noise may have drowned

// `detail(i, name)` shows one group; `columns` are { label, values }, and how many digits are shown if not 6.
function groupsView(content, columns, detail) {
  const notes = el(
    "div",
    { class: "foot" },
    content.notes.map((line) => el("p", {}, shown(line))),
  );
  if (!content.group_by.length) return el("div", {}, detail(0, "all rows"), valueTable(columns), notes);
  return el("div", {}, new GroupTable(content, columns, detail).node, notes);
}

class GroupTable {
  constructor(content, columns, detail) {
    const keys = content.keys.map(namesOf),
      statuses = bytesOf(content.status);
    this.names = Array.from({ length: content.count }, (_, i) => keys.map((of) => shown(of[i])).join(", "));
    this.status = (i) => content.statuses[statuses[i]] ?? "other";
    Object.assign(this, { content, columns, detail, order: [], sort: null, down: false, page: 0, chosen: 0 });
    this.heads = [
      { label: content.group_by.map(shown).join(", "), key: (i) => this.names[i], text: true },
      ...columns.map((column) => ({ label: column.label, key: (i) => column.values[i] })),
      { label: "status", key: this.status, text: true },
    ];
    this.headCells = this.heads.map((head, h) =>
      el(
        "th",
        { scope: "col", class: head.text ? null : "number" },
        el(
          "button",
          { type: "button", class: "sort", onclick: () => this.sortBy(h) },
          shown(head.label),
          el("span", { class: "arrow", "aria-hidden": "true" }),
        ),
      ),
    );
    this.filter = el("input", {
      type: "search",
      id: newId(),
      autocomplete: "off",
      oninput: () => this.arrange("Filtered."),
    });
    this.body = el("tbody");
    this.pager = el("p", { class: "pager" });
    this.live = el("p", { class: "visually-hidden", role: "status" });
    this.single = el("div", { class: "detail" }, detail(0, this.names[0]));
    const weak = this.names.filter((_, i) => this.status(i) === WEAK).length;
    this.spread = new Distribution(columns, weak, () => ({ at: this.chosen, name: this.names[this.chosen] }));
    this.arrange("");
    this.node = this.layout();
  }

  layout() {
    const { content } = this,
      caption = `${whole(content.count)} groups by ${content.group_by.map(shown).join(", ")}`;
    const table = el(
      "table",
      { class: "groups" },
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, this.headCells)),
      this.body,
    );
    const note = content.left_out
      ? el(
          "p",
          { class: "note" },
          `${whole(content.left_out)} groups are not in this page, for its size. The tables of the release have them.`,
        )
      : null;
    return el(
      "div",
      {},
      note,
      el("div", { class: "field" }, el("label", { for: this.filter.id }, "Find a group"), this.filter),
      this.live,
      scrolling(table, caption),
      this.pager,
      this.single,
      this.spread.node,
    );
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
      const { key, text: asText } = this.heads[this.sort],
        sign = this.down ? -1 : 1;
      const order = asText
        ? (a, b) => sign * (a < b ? -1 : a > b ? 1 : 0)
        : (a, b) => Number.isNaN(a) - Number.isNaN(b) || sign * (a - b) || 0; // what is not known comes last, either way
      this.order = this.order
        .map((i) => [i, key(i)])
        .sort(([, a], [, b]) => order(a, b))
        .map(([i]) => i);
    }
    this.page = 0;
    if (words) this.live.textContent = `${words} ${whole(this.order.length)} groups.`;
    this.draw();
  }

  draw() {
    const first = this.page * PAGE,
      last = Math.min(first + PAGE, this.order.length);
    this.body.replaceChildren(...this.order.slice(first, last).map((i) => this.row(i)));
    const pages = Math.max(1, Math.ceil(this.order.length / PAGE)),
      focused = document.activeElement?.textContent;
    const inPager = this.pager.contains(document.activeElement);
    const turn = (words, to) => {
      const go = () => {
        this.page = to;
        this.draw();
      };
      return el("button", { type: "button", disabled: to === this.page || to < 0 || to >= pages, onclick: go }, words);
    };
    this.pager.replaceChildren(
      turn("First", 0),
      turn("Back", this.page - 1),
      el("span", {}, last ? `${whole(first + 1)}–${whole(last)} of ${whole(this.order.length)}` : "none"),
      turn("Next", this.page + 1),
      turn("Last", pages - 1),
    );
    if (inPager) [...this.pager.querySelectorAll("button")].find((button) => button.textContent === focused)?.focus();
  }

  row(i) {
    const pressed = i === this.chosen,
      attributes = { type: "button", class: "link", "aria-pressed": String(pressed), onclick: () => this.choose(i) };
    return el(
      "tr",
      { class: pressed ? "chosen" : null },
      el("th", { scope: "row" }, el("button", attributes, this.names[i])),
      this.columns.map((column) => numberCell(column.values[i], digits(column.values[i], column.digits ?? 6))),
      el("td", {}, shown(this.status(i))),
    );
  }

  show(i) {
    this.chosen = i;
    this.single.replaceChildren(this.detail(i, this.names[i]));
    this.spread.draw();
    this.draw();
  }

  choose(i) {
    this.show(i);
    this.body.querySelector("button[aria-pressed=true]")?.focus();
  }
}

function valueTable(columns) {
  const caption = "As released";
  const rows = columns.map((column) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, shown(column.label)),
      numberCell(column.values[0], digits(column.values[0], 6)),
    ),
  );
  return scrolling(
    el(
      "table",
      {},
      el("caption", {}, caption),
      el(
        "thead",
        {},
        el("tr", {}, el("th", { scope: "col" }, "What"), el("th", { scope: "col", class: "number" }, "Value")),
      ),
      el("tbody", {}, rows),
    ),
    caption,
  );
}
