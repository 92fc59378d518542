// The theme of the page around a view, and its changes.

/** @import { ThemeName } from "./theme.js" */

/**
 * The theme of the page; light on paper. JupyterLab and VS Code name it on <body>, a report on <html>; other pages
 * have the browser's preference.
 *
 * @returns {ThemeName}
 */
export function pageTheme() {
  if (matchMedia("print").matches) return "light";
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight !== undefined) return jpThemeLight === "false" ? "dark" : "light";
  if (vscodeThemeKind !== undefined) return vscodeThemeKind.includes("light") ? "light" : "dark";
  const named = document.documentElement.dataset.theme;
  if (named === "dark" || named === "light") return named;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/**
 * Calls `onChange` whenever the page's theme changes.
 *
 * @param {(theme: ThemeName) => void} onChange
 * @returns {() => void} Stops it.
 */
export function watchPageTheme(onChange) {
  let current = pageTheme();
  const check = () => {
    const theme = pageTheme();
    if (theme === current) return;
    current = theme;
    onChange(theme);
  };
  const observer = new MutationObserver(check);
  const filter = { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind", "data-theme"] };
  observer.observe(document.body, filter);
  observer.observe(document.documentElement, filter);
  const queries = [matchMedia("(prefers-color-scheme: dark)"), matchMedia("print")];
  for (const query of queries) query.addEventListener("change", check);
  return () => {
    observer.disconnect();
    for (const query of queries) query.removeEventListener("change", check);
  };
}
