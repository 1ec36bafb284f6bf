// One table of a figure: reading by pointer and keyboard, keeping cells, changing sheets.  Texts enter as text nodes only.
function nnatlasGrid(figure) {
  "use strict";
  const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
  const one = (selector) => figure.querySelector(selector);
  const table = one("table"), detail = one(".detail"), pins = one(".pins"), said = one(".said"), choice = one("select");
  const hint = detail.textContent;
  const kept = new Map();  // "sheet row column" -> the cell's words
  let at = 0, row = 0, column = 0;

  const make = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const sheet = () => data.sheets[at];
  const key = (r, c) => [at, r, c].join(" ");
  const cellAt = (r, c) => table.tBodies[0].rows[r].cells[c + 1];

  function share(value) {
    const on = data.diverging ? value / data.high : (value - data.low) / (data.high - data.low);
    return value === null ? 0 : Math.max(data.diverging ? -1 : 0, Math.min(1, on));
  }

  function written(r, c) {
    const value = sheet().values[r][c];
    if (sheet().texts) return sheet().texts[r][c];
    return value === null ? "" : value.toFixed(sheet().decimals).replace(/^-(0(\.0*)?)$/, "$1");
  }

  function words(r, c) {
    const it = sheet(), value = it.values[r][c];
    const where = [it.row_words[r], it.column_words[c]];
    if (data.sheets.length > 1) where.unshift(data.page + " " + it.label);
    const text = it.texts ? " " + it.texts[r][c] : "";
    const number = value === null ? " nothing" : (" " + value + " " + data.units).trimEnd();
    const more = it.hover && it.hover[r][c] ? "\n" + it.hover[r][c] : "";
    return where.join(", ") + ":" + text + number + more;
  }

  function cell(r, c) {
    const much = share(sheet().values[r][c]);
    const strong = Math.abs(much) > data.strong ? " strong" : "";
    const made = make("td", written(r, c), {
      class: (much < 0 ? "low" : "high") + strong, tabindex: r === row && c === column ? 0 : -1,
      "aria-label": words(r, c), "aria-selected": kept.has(key(r, c)),
    });
    made.style.setProperty("--share", Math.abs(much));
    return made;
  }

  function draw() {
    const it = sheet(), head = document.createElement("tr"), body = document.createElement("tbody");
    row = Math.min(row, it.rows.length - 1);
    column = Math.min(column, it.columns.length - 1);
    head.append(make("td", data.corner, { class: "corner" }));
    it.columns.forEach((text) => head.append(make("th", text, { scope: "col" })));
    it.rows.forEach((text, r) => {
      const line = make("tr", "");
      line.append(make("th", text, { scope: "row" }), ...it.columns.map((_, c) => cell(r, c)));
      body.append(line);
    });
    table.tHead.replaceChildren(head);
    table.replaceChild(body, table.tBodies[0]);
  }

  function point(r, c) {
    table.querySelectorAll(".pointed").forEach((other) => other.classList.remove("pointed"));
    if (r === null) { detail.textContent = hint; return; }
    cellAt(r, c).classList.add("pointed");
    detail.textContent = words(r, c);
  }

  function move(r, c) {
    cellAt(row, column).tabIndex = -1;
    row = Math.max(0, Math.min(sheet().rows.length - 1, r));
    column = Math.max(0, Math.min(sheet().columns.length - 1, c));
    const here = cellAt(row, column);
    here.tabIndex = 0;
    here.focus();
  }

  function keep(r, c) {
    const name = key(r, c);
    said.textContent = (kept.has(name) ? "let go: " : "kept: ") + words(r, c);
    if (!kept.delete(name)) kept.set(name, words(r, c));
    listKept();
  }

  function listKept() {
    table.querySelectorAll("tbody td").forEach((each) => each.setAttribute("aria-selected", "false"));
    pins.replaceChildren(...[...kept].map(([name, text]) => {
      const [s, r, c] = name.split(" ").map(Number);
      if (s === at) cellAt(r, c).setAttribute("aria-selected", "true");
      const line = make("li", text), button = make("button", "let go", { type: "button", "aria-label": "let go: " + text });
      button.addEventListener("click", () => { kept.delete(name); listKept(); });
      line.append(button);
      return line;
    }));
  }

  function show(next) {
    at = Math.max(0, Math.min(data.sheets.length - 1, next));
    if (choice) choice.value = at;
    draw();
    point(null);
  }

  const place = (event) => {
    const found = event.target.closest("tbody td");
    return found && [found.parentNode.rowIndex - 1, found.cellIndex - 1];
  };
  const keys = {
    ArrowUp: () => move(row - 1, column), ArrowDown: () => move(row + 1, column),
    ArrowLeft: () => move(row, column - 1), ArrowRight: () => move(row, column + 1),
    Home: (event) => move(event.ctrlKey ? 0 : row, 0), End: (event) => move(event.ctrlKey ? Infinity : row, Infinity),
    PageUp: () => { show(at - 1); move(row, column); }, PageDown: () => { show(at + 1); move(row, column); },
    Enter: () => keep(row, column), " ": () => keep(row, column),
    Escape: () => { kept.clear(); listKept(); said.textContent = "let all go"; },
  };
  table.addEventListener("keydown", (event) => {
    if (!place(event) || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key](event);
  });
  table.addEventListener("focusin", (event) => { const where = place(event); if (where) { [row, column] = where; point(row, column); } });
  table.addEventListener("mouseover", (event) => { const where = place(event); if (where) point(...where); });
  table.addEventListener("mouseleave", () => point(null));
  table.addEventListener("click", (event) => { const where = place(event); if (where) { move(...where); keep(...where); } });
  if (choice) choice.addEventListener("change", () => show(Number(choice.value)));
  draw();
}
