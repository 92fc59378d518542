// The module of each timeline widget: it evaluates the bundle of widget.js, which comes with the widget, once a page. A
// notebook of many profiled cells evaluates one copy of the code.

/** @import { WidgetModel } from "./shared/model.js" */

/** @typedef {{ _bundle: string, _bundle_id: string }} LoaderState */
/** @typedef {{ model: WidgetModel<LoaderState>, el: HTMLElement }} View */
/** @typedef {{ default: { render: (view: View) => () => void } }} Bundle */

/**
 * @param {string} text
 * @returns {Promise<Bundle>}
 */
async function evaluate(text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  try {
    return await import(address);
  } finally {
    URL.revokeObjectURL(address);
  }
}

export default {
  /** @param {View} view */
  async render(view) {
    const key = Symbol.for(`cudalens ${view.model.get("_bundle_id")}`);
    const page = /** @type {{ [key: symbol]: Promise<Bundle> | undefined }} */ (/** @type {unknown} */ (globalThis));
    page[key] ??= evaluate(view.model.get("_bundle")).catch((error) => {
      delete page[key];
      throw error;
    });
    return (await page[key]).default.render(view);
  },
};
