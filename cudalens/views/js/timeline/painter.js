// What painting needs that does not change from frame to frame.

import { contextOf } from "../shared/dom.js";

/** @import { TraceData } from "../payload/payload.js" */

/** @typedef {{ text: string, short: string, width: number, shortWidth: number, cuts: number[] }} Label Widths in px. */
/** @typedef {{ image: ImageData, pixels: Uint32Array }} Strip Pixels of the rows in view, one line each. */

/**
 * @typedef {object} Painter
 * @property {HTMLCanvasElement} canvas
 * @property {CanvasRenderingContext2D} context
 * @property {HTMLCanvasElement} stripCanvas
 * @property {CanvasRenderingContext2D} stripContext
 * @property {Strip | null} strip
 * @property {(Label | undefined)[]} labels By name.
 */

/**
 * @param {HTMLCanvasElement} canvas
 * @param {TraceData} data
 * @returns {Painter}
 */
export function createPainter(canvas, data) {
  const stripCanvas = document.createElement("canvas");
  return {
    canvas,
    context: contextOf(canvas, { alpha: false }),
    stripCanvas,
    stripContext: contextOf(stripCanvas),
    strip: null,
    labels: new Array(data.header.names.length),
  };
}

/**
 * The strip of at least `height` lines of `width` pixels.
 *
 * @param {Painter} painter
 * @param {number} width
 * @param {number} height
 * @returns {Strip}
 */
export function stripOf(painter, width, height) {
  const { stripCanvas, stripContext } = painter;
  if (painter.strip === null || stripCanvas.width < width || stripCanvas.height < height) {
    stripCanvas.width = width;
    stripCanvas.height = Math.max(height, stripCanvas.height);
    const image = stripContext.createImageData(width, stripCanvas.height);
    painter.strip = { image, pixels: new Uint32Array(image.data.buffer) };
  }
  return painter.strip;
}
