// The offline report: the same app as the live widget, with its data in blocks of the report's own file.

import { createApp } from "./app/app.js";

/** @import { PageFacts } from "./app/source.js" */

/** @param {string} id */
function find(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the report has no element ${id}`);
  return found;
}

/** @param {string} id */
function blockText(id) {
  return find(id).textContent ?? "";
}

/**
 * The bytes of a data block.
 *
 * @param {string} id
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
async function blockBytes(id) {
  const text = blockText(id);
  const native = /** @type {{ fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }} */ (Uint8Array);
  if (native.fromBase64) return native.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

function startPage() {
  const root = find("cudalens-app");
  const still = find("cudalens-static");
  /** @type {{ facts: PageFacts, versions: { [library: string]: string } }} */
  const config = JSON.parse(blockText("cudalens-facts"));
  const app = createApp(root, {
    ...config,
    payload: () => blockBytes("cudalens-payload"),
    races: () => blockBytes("cudalens-races"),
    graphs: () => blockBytes("cudalens-graphs"),
    memory: () => blockBytes("cudalens-memory"),
    asset: (name) => blockBytes(`cudalens-${name}`),
    hash: location.hash,
    address: (hash) => `${location.href.split("#")[0]}${hash}`,
    onData() {
      still.hidden = true;
      root.hidden = false;
    },
    onPaint: () => void performance.mark("cudalens-painted"),
    onFail() {
      root.hidden = false;
    },
  });
  // For tests and for the browser's console.
  Reflect.set(globalThis, "cudalensReport", app);
  startThemeButton(find("cudalens-theme"));
}

/**
 * A button for light or dark; without a press, the page follows the browser's preference.
 *
 * @param {HTMLElement} button
 */
function startThemeButton(button) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const page = document.documentElement;
    const shown = page.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    page.dataset.theme = shown === "dark" ? "light" : "dark";
  });
}

startPage();
