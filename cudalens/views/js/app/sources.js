// The source lines of the functions of notebook cells that a call stack names.

export const SOURCE = "Source of ";
const MAX_FUNCTIONS = 4;
const MAX_LINES = 16;
// What a stack and a Python call have: the cell, the first line of the function, and the function's name.
const IN_CELL = /^(In\[\d+\])\((\d+)\): (.*)$/s;

/**
 * The source of each function of `calls` whose cell is known, in their order.
 *
 * @param {{ [cell: string]: string }} cells Text by cell.
 * @param {string[]} calls Innermost first.
 * @returns {[term: string, text: string][]}
 */
export function sourcesOf(cells, calls) {
  /** @type {Map<string, string>} */
  const found = new Map();
  for (const call of calls) {
    const [, cell, first, name] = call.match(IN_CELL) ?? [];
    const text = cell && Object.hasOwn(cells, cell) ? functionText(cells[cell], Number(first), name) : "";
    if (text) found.set(`${SOURCE}${name}, ${cell}`, text);
    if (found.size === MAX_FUNCTIONS) break;
  }
  return [...found];
}

/**
 * The numbered lines of the function that begins in line `first`; of the cell itself where it is a module.
 *
 * @param {string} text Of the cell.
 * @param {number} first
 * @param {string} name
 */
function functionText(text, first, name) {
  const lines = text.trimEnd().split("\n");
  if (first < 1 || first > lines.length) return "";
  const isModule = name === "<module>";
  const [from, stop] = isModule ? [0, lines.length] : [first - 1, endOfBlock(lines, first - 1)];
  const shown = lines
    .slice(from, Math.min(stop, from + MAX_LINES))
    .map((line, k) => `${from + k + 1}  ${line}`.trimEnd());
  return [...shown, ...(stop > from + MAX_LINES ? ["…"] : [])].join("\n");
}

/**
 * The end of the statement that begins in a line: decorators and the signature, and the lines that are indented more.
 *
 * @param {string[]} lines
 * @param {number} first
 */
function endOfBlock(lines, first) {
  const indent = indentOf(lines[first]);
  let k = first;
  while (k < lines.length - 1 && lines[k].trimStart().startsWith("@")) k += 1;
  for (k += 1; k < lines.length; k++) {
    const line = lines[k].trim();
    if (line && indentOf(lines[k]) <= indent && !/^[)\]}]/.test(line)) break;
  }
  while (k > first + 1 && !lines[k - 1].trim()) k -= 1;
  return k;
}

/** @param {string} line */
function indentOf(line) {
  return line.length - line.trimStart().length;
}
