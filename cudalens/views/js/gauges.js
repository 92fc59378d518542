// The widget of the live gauges; cudalens/views/gauges_widget.py is its Python side.

import { createGauges } from "./devices/gauges.js";
import { forgetMoments, keepMoment } from "./devices/moments.js";

/** @import { GaugesModel } from "./devices/gauges.js" */

/** @param {{ model: GaugesModel }} widget */
function initialize({ model }) {
  keepMoment(model.get("_moment"));
  model.on("change:_moment", () => keepMoment(model.get("_moment")));
  model.on("change:_gpus", forgetMoments);
}

/** @param {{ model: GaugesModel, el: HTMLElement }} view */
function render({ model, el }) {
  return createGauges(el, model);
}

export default { initialize, render };
