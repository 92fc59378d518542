// The offline report: the same app as the live widget, fed by data blocks of this very file.

import { createApp } from "./app/app.js";

function reportBlock(id) {
  return document.getElementById(id).textContent;
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

function startReport() {
  const root = document.getElementById("cudalens-app");
  const still = document.getElementById("cudalens-static");
  const config = JSON.parse(reportBlock("cudalens-facts"));
  globalThis.cudalensReport = createApp(root, {
    ...config,
    payload: async () => fromBase64(reportBlock("cudalens-payload")),
    races: async () => fromBase64(reportBlock("cudalens-races")),
    graphs: async () => fromBase64(reportBlock("cudalens-graphs")),
    memory: async () => fromBase64(reportBlock("cudalens-memory")),
    asset: async (name) => fromBase64(reportBlock(`cudalens-${name}`)),
    onData() {
      still.hidden = true;
      root.hidden = false;
    },
    onPaint: () => performance.mark("cudalens-painted"),
    onFail: () => (root.hidden = false),
  });
  startThemeButton(document.getElementById("cudalens-theme"));
}

// Light or dark by hand; without a press, the page follows the browser's preference.
function startThemeButton(button) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const page = document.documentElement;
    const shown = page.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    page.dataset.theme = shown === "dark" ? "light" : "dark";
  });
}

startReport();
