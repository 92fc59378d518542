// The saved pictures of a widget, which a notebook shows where no kernel runs. They are hidden while the live view
// shows.

import { findAll } from "./dom.js";

/**
 * @param {string} id Of the widget; empty where it has no picture.
 * @returns {HTMLElement[]}
 */
export function findPictures(id) {
  return id ? findAll(document, `[data-cudalens-static="${CSS.escape(id)}"]`, HTMLElement) : [];
}

/**
 * @param {string} id Of the widget.
 * @param {boolean} isHidden
 */
export function hidePictures(id, isHidden) {
  const outputs = findPictures(id).map(
    (picture) => /** @type {HTMLElement | null} */ (picture.closest(".jp-OutputArea-child")) ?? picture,
  );
  const between = outputs.length > 1 ? outputs[0].nextElementSibling : null;
  // The timeline as an image is between the two.
  if (between instanceof HTMLElement && between.nextElementSibling === outputs[1]) outputs.push(between);
  for (const output of outputs) output.style.display = isHidden ? "none" : "";
}
