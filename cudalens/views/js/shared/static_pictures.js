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
  for (const picture of findPictures(id)) {
    const output = /** @type {HTMLElement | null} */ (picture.closest(".jp-OutputArea-child")) ?? picture;
    output.style.display = isHidden ? "none" : "";
  }
}
