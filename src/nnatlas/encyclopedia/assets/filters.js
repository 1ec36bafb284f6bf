// The front page's search and trait filters.  What is chosen stands in the address (after #), so that it can be shared.
"use strict";
(() => {
  const box = document.querySelector("[data-filters]");
  if (!box) return;
  const search = box.querySelector("#search");
  const buttons = [...box.querySelectorAll("[data-trait]")];
  const items = [...document.querySelectorAll("[data-family]")];
  const count = box.querySelector("[data-count]");
  const clear = box.querySelector("[data-clear]");
  const STATES = ["", "with", "without"];

  const list = (name) => (new URLSearchParams(location.hash.slice(1)).get(name) || "").split(",").filter(Boolean);

  // Others (the comparison) keep their own part of the address through this.
  window.nnatlasAddress = (changes) => {
    const known = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    Object.entries(changes).forEach(([name, value]) => (value ? known.set(name, value) : known.delete(name)));
    const hash = known.toString().replaceAll("%2C", ",");
    if (`#${hash}` !== location.hash && (hash || location.hash.includes("="))) {
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    }
  };

  const mark = (button, state) => {
    button.dataset.state = state;
    button.setAttribute("aria-pressed", state ? "true" : "false");
    button.setAttribute("aria-label", state === "without" ? `without ${button.dataset.name}` : button.dataset.name);
  };
  const of = (state) => buttons.filter((button) => button.dataset.state === state).map((button) => button.dataset.trait);

  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = of("with");
    const unwanted = of("without");
    let shown = 0;
    items.forEach((item) => {
      const own = item.dataset.traits.split(" ");
      const fits = words.every((word) => item.dataset.words.includes(word))
        && wanted.every((trait) => own.includes(trait)) && !unwanted.some((trait) => own.includes(trait));
      item.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    count.textContent = shown === 1 ? "1 family" : `${shown} families`;
    clear.hidden = !(words.length || wanted.length || unwanted.length);
    window.nnatlasAddress({ q: search.value.trim(), with: wanted.join(","), without: unwanted.join(",") });
  };

  const read = () => {
    search.value = new URLSearchParams(location.hash.slice(1)).get("q") || "";
    const wanted = list("with");
    const unwanted = list("without");
    buttons.forEach((button) => mark(button, wanted.includes(button.dataset.trait) ? "with" : unwanted.includes(button.dataset.trait) ? "without" : ""));
    apply();
  };

  search.addEventListener("input", apply);
  buttons.forEach((button) => button.addEventListener("click", () => {
    mark(button, STATES[(STATES.indexOf(button.dataset.state || "") + 1) % STATES.length]);
    apply();
  }));
  clear.addEventListener("click", () => {
    search.value = "";
    buttons.forEach((button) => mark(button, ""));
    apply();
    search.focus();
  });
  window.addEventListener("hashchange", () => { if (location.hash.includes("=")) read(); });
  const fold = box.querySelector("[data-fold]");
  fold.open = matchMedia("(min-width: 60rem)").matches || location.hash.includes("with");
  box.hidden = false;
  read();
})();
