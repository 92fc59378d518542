// The module of each timeline widget: it evaluates the bundle of widget.js, which comes with the widget, once a page. A
// notebook of many profiled cells evaluates one copy of the code, and its widgets share one copy of the text.

/** @import { WidgetModel } from "./shared/model.js" */

/** @typedef {{ _bundle: string, _bundle_id: string }} LoaderState */
/** @typedef {{ model: WidgetModel<LoaderState>, el: HTMLElement }} View */
/** @typedef {{ default: { render: (view: View) => () => void } }} Bundle */
/** @typedef {{ text: string, bundle: Promise<Bundle> }} Loaded */

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

/**
 * The text of the bundle, which arrives after the rest of the state.
 *
 * @param {WidgetModel<LoaderState>} model
 * @returns {Promise<string>}
 */
function received(model) {
  return new Promise((resolve) => {
    const look = () => {
      const text = model.get("_bundle");
      if (!text) return;
      model.off("change:_bundle", look);
      resolve(text);
    };
    model.on("change:_bundle", look);
    look();
  });
}

/**
 * Let the model refer to `text`, which is equal to its own copy. Nothing changes for the kernel and for saved state.
 *
 * @param {WidgetModel<LoaderState>} model
 * @param {string} text
 */
function share(model, text) {
  // Jupyter's models also refer to the values before the last call.
  for (let k = 0; k < 2; k += 1) model.set("_bundle", text);
}

export default {
  /** @param {View} view */
  async render(view) {
    const own = await received(view.model);
    const key = Symbol.for(`cudalens bundle ${view.model.get("_bundle_id")}`);
    const page = /** @type {{ [key: symbol]: Loaded | undefined }} */ (/** @type {unknown} */ (globalThis));
    const text = page[key]?.text ?? own;
    page[key] ??= {
      text,
      bundle: evaluate(text).catch((error) => {
        delete page[key];
        throw error;
      }),
    };
    const { bundle } = page[key];
    share(view.model, text);
    return (await bundle).default.render(view);
  },
};
