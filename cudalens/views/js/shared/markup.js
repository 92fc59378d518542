// Trees of elements as cudalens/views/sections/markup.py writes them, [tag, attributes, child, …], brought into the page. Texts
// become text nodes; of tags and attributes only those are known that the trees need, so none of them can run anything.

const MARKUP_SVG = "http://www.w3.org/2000/svg";
const MARKUP_TAGS = new Set(["article", "b", "code", "dd", "details", "div", "dl", "dt", "li", "ol", "p", "pre", "span", "strong", "summary", "table",
  "tbody", "td", "th", "thead", "tr", "ul"]);
const MARKUP_SHAPES = new Set(["svg", "title", "rect", "path", "text"]);
const MARKUP_ATTRIBUTES = new Set(["class", "colspan", "scope", "role", "tabindex", "open", "title", "aria-label", "viewBox", "width",
  "height", "preserveAspectRatio", "x", "y", "rx", "d", "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity",
  "stroke-dasharray", "opacity", "data-event", "font-family", "font-size", "font-weight", "text-anchor"]);

export function buildMarkup(tree) {
  if (typeof tree === "string") return document.createTextNode(tree);
  const [tag, attributes, ...children] = tree;
  const isShape = MARKUP_SHAPES.has(tag);
  if (!isShape && !MARKUP_TAGS.has(tag)) throw new Error(`cudalens markup: the element ${tag} is not known here`);
  const node = isShape ? document.createElementNS(MARKUP_SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (MARKUP_ATTRIBUTES.has(name)) node.setAttribute(name, value);
  node.append(...children.map(buildMarkup));
  return node;
}
