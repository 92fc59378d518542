// Small helpers that every panel shares: elements, numbers for the eye, the theme of the page around us.
// Text only ever enters the page as text nodes and attributes, so foreign names stay inert.

export function uiElement(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "onclick") node.addEventListener("click", value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function uiEscape(text) {
  const codes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return String(text).replace(/[&<>"']/g, (c) => codes[c]);
}

// Three significant digits, as analysis/units.py writes them.
function uiDigits(value) {
  return value >= 999.5 ? value.toFixed(0) : value.toPrecision(3);
}

export function uiDuration(ns) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return "-";
  if (ns < 0) return `-${uiDuration(-ns)}`;
  if (ns >= 119.5e9) {
    const seconds = Math.round(ns / 1e9);
    return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  }
  for (const [scale, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= 0.9995 * scale) return `${uiDigits(ns / scale)} ${unit}`;
  }
  return ns >= 0.9995 || ns === 0 ? `${ns.toFixed(0)} ns` : `${Number(ns.toPrecision(2))} ns`;
}

export function uiSize(bytes) {
  if (bytes === null || bytes === undefined || Number.isNaN(bytes)) return "-";
  if (bytes < 0) return `-${uiSize(-bytes)}`;
  for (const [scale, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (bytes >= 0.9995 * scale) return `${uiDigits(bytes / scale)} ${unit}`;
  }
  return `${bytes.toFixed(0)} B`;
}

export function uiPercent(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  if (value > 0 && value < 0.1) return "<0.1 %";
  return value < 9.95 ? `${value.toFixed(1)} %` : `${value.toFixed(0)} %`;
}

export function uiCount(number) {
  return number.toLocaleString("en-US");
}

export function uiPlural(number, noun) {
  return `${uiCount(number)} ${noun}${number === 1 ? "" : "s"}`;
}

// "dark" or "light"; paper is light. JupyterLab and VS Code say it on <body>, other pages through the browser's preference.
export function uiPageTheme() {
  if (matchMedia("print").matches) return "light";
  const body = document.body.dataset;
  if ("jpThemeLight" in body) return body.jpThemeLight === "false" ? "dark" : "light";
  if ("vscodeThemeKind" in body) return body.vscodeThemeKind.includes("light") ? "light" : "dark";
  const named = document.documentElement.dataset.theme;
  if (named === "dark" || named === "light") return named;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

// Calls `onChange(theme)` whenever the page's theme changes; returns a function that stops it.
export function uiWatchTheme(onChange) {
  let current = uiPageTheme();
  const check = () => {
    const theme = uiPageTheme();
    if (theme !== current) onChange((current = theme));
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
