// The live panel of a watched run; cudalens/watching/panel.py is its Python side.

import { createPanel } from "./watch/panel.js";

/** @import { PanelModel } from "./watch/panel.js" */

/** @param {{ model: PanelModel, el: HTMLElement }} view */
function render({ model, el }) {
  return createPanel(el, model);
}

export default { render };
