// Chosen families side by side, from the facts in families-data.js; the choice stands in the address too.
"use strict";
(() => {
  const facts = window.nnatlasFamilies;
  const place = document.querySelector("[data-compare]");
  if (!facts || !place) return;
  const table = place.querySelector("[data-table]");
  const different = place.querySelector("[data-only-different]");
  const boxes = [...document.querySelectorAll("[data-choose]")];
  const nameOf = (box) => box.closest("[data-family]").dataset.family;

  const cell = (tag, text, scope) => {
    const made = document.createElement(tag);
    if (scope) made.scope = scope;
    made.textContent = String(text ?? "");
    return made;
  };

  const head = (chosen) => {
    const row = document.createElement("tr");
    row.append(cell("td", ""));
    chosen.forEach((name) => {
      const link = document.createElement("a");
      link.href = `family/${name}.html`;
      link.textContent = name;
      const made = cell("th", "", "col");
      made.append(link);
      row.append(made);
    });
    const part = document.createElement("thead");
    part.append(row);
    return part;
  };

  const show = () => {
    const chosen = boxes.filter((box) => box.checked).map(nameOf);
    place.hidden = chosen.length === 0;
    const body = document.createElement("tbody");
    Object.keys(facts[chosen[0]] || {}).forEach((fact) => {
      const said = chosen.map((name) => facts[name][fact]);
      const differs = new Set(said.map(String)).size > 1;
      if (different.checked && !differs) return;
      if (said.every((one) => one === "")) return;
      const row = document.createElement("tr");
      row.className = differs && chosen.length > 1 ? "differs" : "";
      row.append(cell("th", fact.replaceAll("_", " "), "row"), ...said.map((one) => cell("td", one)));
      body.append(row);
    });
    table.replaceChildren(head(chosen), body);
    tell(chosen);
    window.nnatlasAddress({ compare: chosen.join(",") });
  };

  const tray = document.querySelector("[data-tray]");
  const tell = (chosen) => {
    tray.hidden = chosen.length === 0;
    tray.querySelector("[data-tray-says]").textContent = chosen.join(", ");
    tray.querySelector("[data-tray-go]").textContent = chosen.length > 1 ? "See them side by side" : "See it in the table";
  };
  // The address holds the filters, so that the way to the table must not change it.
  tray.querySelector("[data-tray-go]").addEventListener("click", (event) => {
    event.preventDefault();
    place.scrollIntoView();
    place.querySelector("[role=region]").focus({ preventScroll: true });
  });

  const read = () => {
    const chosen = (new URLSearchParams(location.hash.slice(1)).get("compare") || "").split(",");
    boxes.forEach((box) => { box.checked = chosen.includes(nameOf(box)); });
    show();
  };

  boxes.forEach((box) => box.addEventListener("change", show));
  different.addEventListener("change", show);
  place.querySelector("[data-clear-compare]").addEventListener("click", () => {
    boxes.forEach((box) => { box.checked = false; });
    show();
  });
  window.addEventListener("hashchange", () => { if (location.hash.includes("=")) read(); });
  read();
})();
