// Build the trees of elements that cudalens/views/sections/markup.py makes. Texts become text nodes; only the listed
// elements and attributes are built, so nothing in a tree can run as code.

import { SVG_NAMESPACE } from "./dom.js";

const TAGS = new Set([
  "article",
  "b",
  "code",
  "dd",
  "details",
  "div",
  "dl",
  "dt",
  "h4",
  "li",
  "ol",
  "p",
  "pre",
  "span",
  "strong",
  "summary",
  "table",
  "tbody",
  "td",
  "th",
  "thead",
  "tr",
  "ul",
]);
const SHAPES = new Set(["svg", "title", "rect", "path", "text"]);
const ATTRIBUTES = new Set([
  "class",
  "colspan",
  "scope",
  "role",
  "tabindex",
  "open",
  "title",
  "aria-hidden",
  "aria-label",
  "viewBox",
  "width",
  "height",
  "preserveAspectRatio",
  "x",
  "y",
  "rx",
  "d",
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "opacity",
  "data-event",
  "data-depth",
  "data-label",
  "data-wide",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
]);

/** @typedef {string | MarkupElement} MarkupTree */
/** @typedef {[tag: string, attributes: { [name: string]: string }, ...children: MarkupTree[]]} MarkupElement */

/**
 * @param {MarkupTree} tree
 * @returns {Element | Text}
 */
export function buildMarkup(tree) {
  return typeof tree === "string" ? document.createTextNode(tree) : buildElement(tree);
}

/**
 * @param {MarkupElement} tree
 * @returns {Element}
 */
export function buildElement([tag, attributes, ...children]) {
  const isShape = SHAPES.has(tag);
  if (!isShape && !TAGS.has(tag)) throw new Error(`cudalens markup: the element ${tag} is not known here`);
  const node = isShape ? document.createElementNS(SVG_NAMESPACE, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (ATTRIBUTES.has(name)) node.setAttribute(name, value);
  if (tag === "h4") node.setAttribute("aria-level", "3");
  node.append(...children.map(buildMarkup));
  return node;
}
