// The source lines of the functions of notebook cells that a call stack names.

export const SOURCE = "Source of ";
const MAX_FUNCTIONS = 4;
const MAX_LINES = 16;
// What a stack and a Python call have: the cell, the line that ran if it is known, the first line of the function, and
// the function's name: "In[3](7, def 5): step", "In[3](def 5): step" or "In[3](5): step".
const IN_CELL = /^(In\[\d+\])\((?:(\d+), )?(?:def )?(\d+)\): (.*)$/s;

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
    const [, cell, line, first, name] = call.match(IN_CELL) ?? [];
    const text = cell && Object.hasOwn(cells, cell) ? functionText(cells[cell], Number(first), name, Number(line)) : "";
    if (text) found.set(`${SOURCE}${name}, ${cell}`, text);
    if (found.size === MAX_FUNCTIONS) break;
  }
  return [...found];
}

/**
 * The numbered lines of the function that begins in line `first`; of the cell itself where it is a module. The line
 * that ran has a mark.
 *
 * @param {string} text Of the cell.
 * @param {number} first
 * @param {string} name
 * @param {number} ran The line that ran; not a number if it is not known.
 */
function functionText(text, first, name, ran) {
  const lines = text.trimEnd().split("\n");
  if (first < 1 || first > lines.length) return "";
  const isModule = name === "<module>";
  const [begin, stop] = isModule ? [0, lines.length] : [first - 1, endOfBlock(lines, first - 1)];
  const from = ran > begin + MAX_LINES ? Math.min(ran - MAX_LINES / 2, stop - MAX_LINES) : begin;
  const shown = lines
    .slice(from, Math.min(stop, from + MAX_LINES))
    .map((line, k) => `${from + k + 1}${from + k + 1 === ran ? "›" : " "} ${line}`.trimEnd());
  return [...(from > begin ? ["…"] : []), ...shown, ...(stop > from + MAX_LINES ? ["…"] : [])].join("\n");
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
