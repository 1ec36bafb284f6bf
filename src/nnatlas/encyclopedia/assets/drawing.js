// The drawn block: pointing at a part opens its card, a click pins it, the slider chooses the block.
"use strict";
(() => {
  const block = document.querySelector("[data-block]");
  if (!block) return;
  document.documentElement.classList.add("js");
  const card = block.querySelector("[data-card]");
  const idle = card.innerHTML;
  let pinned = null;

  const line = (text, name, tag = "p") => {
    if (!text) return [];
    const made = document.createElement(tag);
    made.className = name;
    made.textContent = text;
    return [made];
  };

  const text = (row, name) => row.querySelector(name).textContent.replace(/\s+/g, " ").trim();

  const rowOf = (part) => document.getElementById(part.getAttribute("href").slice(1));

  const title = (part) => {
    if (part.dataset.title) return part.dataset.title;
    const row = rowOf(part);
    return `${text(row.closest("table"), "caption code")}.${text(row, ".name")}`;
  };

  // A value's facts stand in its row of the tables; other parts carry theirs.
  const facts = (part) => {
    const { line: said, place } = part.dataset;
    if (said) return [...line(said[0].toUpperCase() + said.slice(1) + "."), ...line(place && `Read at ${place}.`, "quiet")];
    const row = rowOf(part);
    return [...line(text(row, ".layout"), "axes"), ...line(text(row, ".meaning")), ...line(`Read at ${text(row, ".where")}.`, "quiet")];
  };

  const open = (part) => {
    block.querySelectorAll(".part.shown").forEach((other) => other.classList.remove("shown"));
    part.classList.add("shown");
    const parts = [...line(title(part), "card-title"), ...facts(part)];
    if (part.getAttribute("href").startsWith("#value-")) {
      const more = document.createElement("a");
      more.href = part.getAttribute("href");
      more.textContent = "Its row in the table";
      const held = document.createElement("p");
      held.append(more);
      parts.push(held);
    }
    card.replaceChildren(...parts);
  };

  const close = () => {
    block.querySelectorAll(".part.shown").forEach((part) => part.classList.remove("shown"));
    if (pinned) open(pinned);
    else card.innerHTML = idle;
  };

  const pin = (part) => {
    if (pinned) {
      pinned.classList.remove("pinned");
      pinned.removeAttribute("aria-current");
    }
    pinned = pinned === part ? null : part;
    card.toggleAttribute("data-pinned", Boolean(pinned));
    if (!pinned) return close();
    part.classList.add("pinned");
    part.setAttribute("aria-current", "true");
    open(part);
  };

  block.querySelectorAll(".part").forEach((part) => {
    part.addEventListener("pointerenter", () => { if (!pinned) open(part); });
    part.addEventListener("pointerleave", () => { if (!pinned) close(); });
    part.addEventListener("focus", () => { if (!pinned) open(part); });
    part.addEventListener("click", (event) => { event.preventDefault(); pin(part); });
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && pinned) pin(pinned); });

  const slider = block.querySelector("[data-slider]");
  const cells = [...block.querySelectorAll("[data-stack] i")];
  const sorts = [...block.querySelectorAll("[data-go]")];
  const choose = (number) => {
    block.querySelectorAll("[data-blocks]").forEach((shown) => {
      shown.hidden = !shown.dataset.blocks.split(" ").includes(String(number));
    });
    const which = block.querySelector("[data-which]");
    if (which) which.textContent = number;
    const caption = block.querySelector(".picture:not([hidden]) figcaption");
    const kind = block.querySelector("[data-kind]");
    if (kind) kind.textContent = caption ? caption.textContent : "";
    if (slider) slider.value = number;
    cells.forEach((cell, at) => cell.classList.toggle("here", at === number));
    const seen = block.querySelector(".picture:not([hidden])");
    sorts.forEach((sort) => {
      sort.toggleAttribute("aria-current", seen.dataset.blocks.split(" ").includes(sort.dataset.go));
    });
    if (pinned && pinned.closest("[hidden]")) pin(pinned);
  };
  cells.forEach((cell, at) => cell.addEventListener("click", () => choose(at)));
  sorts.forEach((sort) => sort.addEventListener("click", () => choose(Number(sort.dataset.go))));
  block.querySelector("[data-controls]").hidden = false;
  if (slider) slider.addEventListener("input", () => choose(Number(slider.value)));
  choose(0);
})();
