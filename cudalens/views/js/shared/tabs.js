// Tabs: buttons of which one shows its panel. A panel is filled when it is first shown.

import { element } from "./dom.js";

/**
 * @typedef {object} Tab
 * @property {string} key
 * @property {string} title
 * @property {(host: HTMLElement) => void} fill Called once, when the panel is first shown.
 * @property {() => void} [onShow] Called when the panel is shown again.
 */

/**
 * @typedef {object} TabsView
 * @property {(key: string) => void} show
 * @property {() => string} current
 */

/**
 * Builds the tabs in `host`; the first one shows.
 *
 * @param {HTMLElement} host
 * @param {string} label For screen readers.
 * @param {Tab[]} tabs
 * @returns {TabsView}
 */
export function createTabs(host, label, tabs) {
  const own = Math.random().toString(36).slice(2);
  const filled = new Set();
  let current = "";
  const panels = tabs.map(({ key }) =>
    element("div", { id: `cl-${own}-${key}`, class: "cl-tab-panel", role: "tabpanel", hidden: true }),
  );
  const buttons = tabs.map(({ key, title }) =>
    element(
      "button",
      {
        type: "button",
        class: "cl-tab",
        role: "tab",
        "data-key": key,
        "aria-controls": `cl-${own}-${key}`,
        "data-lm-suppress-shortcuts": "true",
        onclick: () => show(key),
      },
      title,
    ),
  );
  const show = (/** @type {string} */ key) => {
    current = key;
    tabs.forEach((tab, k) => {
      const isShown = tab.key === key;
      buttons[k].setAttribute("aria-selected", String(isShown));
      buttons[k].tabIndex = isShown ? 0 : -1;
      panels[k].hidden = !isShown;
      if (isShown && filled.has(key)) tab.onShow?.();
      if (!isShown || filled.has(key)) return;
      filled.add(key);
      tab.fill(panels[k]);
    });
  };
  const list = element("div", { class: "cl-tabs", role: "tablist", "aria-label": label }, ...buttons);
  list.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    const k = (buttons.findIndex((button) => button.dataset.key === current) + by + tabs.length) % tabs.length;
    show(tabs[k].key);
    buttons[k].focus();
    event.preventDefault();
    event.stopPropagation();
  });
  host.replaceChildren(list, ...panels);
  if (tabs.length) show(tabs[0].key);
  return { show, current: () => current };
}
