// Build elements. Text only enters the page as text nodes and attributes, so foreign names cannot become markup.

export const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/** @typedef {string | number | boolean | null | undefined | (() => void)} AttributeValue */
/** @typedef {{ [name: string]: AttributeValue }} Attributes */

/**
 * An HTML element. Attributes and children that are null or undefined are left out, and attributes that are false.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes] By name; true sets an attribute without a value, `onclick` is a listener.
 * @param {...(Node | string | null | undefined)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener("click", value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/**
 * An SVG element.
 *
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {{ [name: string]: string | number }} [attributes]
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svgElement(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG_NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

/** @type {{ [character: string]: string }} */
const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** @param {string} text */
export function escapeHtml(text) {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character]);
}

/**
 * Resolves when `node` first comes on the screen, or close to it, or the page is printed.
 *
 * @param {Element} node
 * @param {(() => void)[]} cleanups Gets a function that ends the waiting.
 * @returns {Promise<void>}
 */
export function untilOnScreen(node, cleanups) {
  return new Promise((resolve) => {
    const end = () => {
      observer.disconnect();
      removeEventListener("beforeprint", come);
    };
    const come = () => {
      end();
      resolve();
    };
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && come(), {
      rootMargin: "200px",
    });
    observer.observe(node);
    addEventListener("beforeprint", come);
    cleanups.push(end);
  });
}

/**
 * The drawing context of a canvas.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {CanvasRenderingContext2DSettings} [settings]
 */
export function contextOf(canvas, settings) {
  const context = canvas.getContext("2d", settings);
  if (context === null) throw new Error("this browser cannot draw on a canvas");
  return context;
}

/**
 * The elements of one class that match a selector.
 *
 * @template {Element} Found
 * @param {ParentNode} root
 * @param {string} selector
 * @param {new () => Found} type
 * @returns {Found[]}
 */
export function findAll(root, selector, type) {
  return /** @type {Found[]} */ ([...root.querySelectorAll(selector)].filter((node) => node instanceof type));
}

/**
 * `text` cut to `width` px; "" where not even a few letters fit.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} width
 * @param {number} [tail] Share of the letters that are kept at the end, where names differ there.
 */
export function cutToWidth(context, text, width, tail = 0) {
  if (context.measureText(text).width <= width) return text;
  for (let n = Math.min(text.length - 1, Math.floor(width / 3)); n > 2; n--) {
    const kept = Math.floor(n * tail);
    const cut = `${text.slice(0, n - kept)}…${text.slice(text.length - kept)}`;
    if (context.measureText(cut).width <= width) return cut;
  }
  return "";
}
