// Light or dark by hand, remembered; without a choice the page follows the system.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const button = document.querySelector("[data-theme-switch]");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("nnatlas-theme"); } catch { /* a page from a file may have no storage */ }
  const isDark = () => (chosen ? chosen === "dark" : dark.matches);
  const show = () => {
    if (chosen) root.dataset.theme = chosen;
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show this page in ${isDark() ? "light" : "dark"} colours`);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    chosen = isDark() ? "light" : "dark";
    try { localStorage.setItem("nnatlas-theme", chosen); } catch { /* as above */ }
    show();
  });
  dark.addEventListener("change", show);
  show();
})();
