// The theme: as the system has it, light or dark.  The server knows it by a cookie, so that no page flashes.
const ORDER = ["", "light", "dark"];
const WORDS = { "": "as the system has it", light: "light", dark: "dark" };
const SIGNS = { "": "◐", light: "○", dark: "●" };

export function offerThemes() {
  const button = document.querySelector("[data-theme-switch]");
  if (!button) return;
  const root = document.documentElement;
  const show = () => {
    const theme = root.dataset.theme || "";
    button.textContent = SIGNS[theme];
    button.setAttribute("aria-label", `Theme: ${WORDS[theme]}`);
    button.title = `Theme: ${WORDS[theme]}`;
  };
  button.addEventListener("click", () => {
    const theme = ORDER[(ORDER.indexOf(root.dataset.theme || "") + 1) % ORDER.length];
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    const path = root.dataset.root || "/";
    const age = theme ? 365 * 24 * 3600 : 0;
    document.cookie = `penstock-theme=${theme}; Path=${path}; Max-Age=${age}; SameSite=Lax`;
    show();
  });
  button.hidden = false;
  show();
}
