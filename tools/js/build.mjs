// Bundles the entry modules of cudalens/views/js into cudalens/views/static, one file each.
// `node build.mjs` writes them; `node build.mjs --check` compares the committed files with a fresh build.

import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const VIEWS = fileURLToPath(new URL("../../cudalens/views/", import.meta.url));
const ENTRIES = ["loader", "widget", "report", "gauges", "watch"];

/**
 * The text of the bundle of one entry module.
 *
 * @param {string} entry
 * @returns {Promise<string>}
 */
async function bundle(entry) {
  const built = await esbuild.build({
    absWorkingDir: VIEWS,
    banner: { js: "/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */" },
    bundle: true,
    // Browsers hold ASCII texts in half the memory.
    charset: "ascii",
    entryPoints: [`js/${entry}.js`],
    format: "esm",
    legalComments: "inline",
    lineLimit: 160,
    logLevel: "warning",
    minify: true,
    target: "es2022",
    write: false,
  });
  return built.outputFiles[0].text;
}

const isCheck = process.argv.includes("--check");
for (const entry of ENTRIES) {
  const path = `${VIEWS}static/${entry}.js`;
  const text = await bundle(entry);
  if (!isCheck) await writeFile(path, text);
  else if ((await readFile(path, "utf8").catch(() => "")) !== text) {
    console.error(`cudalens/views/static/${entry}.js differs from a fresh build of cudalens/views/js: run \`make js\``);
    process.exitCode = 1;
  }
}
