// A Vite plugin: one text with the licences of everything that went into the bundle, shipped beside it.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Folder of the npm package that a module belongs to, or null for our own. */
function packageOf(id) {
  const place = id.lastIndexOf("node_modules/");
  if (place < 0) return null;
  let folder = dirname(id.split("?")[0]);
  while (folder.length > place && !hasName(join(folder, "package.json"))) folder = dirname(folder);
  return folder;
}

/** Packages hold nameless package.json files in their inner folders. */
function hasName(file) {
  return existsSync(file) && JSON.parse(readFileSync(file, "utf8")).name !== undefined;
}

function noticeOf(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file === undefined ? "" : `\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  return `${name} ${version} (${license})\n${text}`;
}

/** `own` are texts of our own tree: fonts and icons. */
export function licences(own) {
  return {
    name: "licences",
    apply: "build",
    generateBundle(_, bundle) {
      const ids = Object.values(bundle).flatMap((chunk) => (chunk.type === "chunk" ? chunk.moduleIds : []));
      const folders = [...new Set(ids.map(packageOf).filter((folder) => folder !== null))].sort();
      const texts = [...folders.map(noticeOf), ...own.map((file) => readFileSync(file, "utf8").trim())];
      this.emitFile({
        type: "asset",
        fileName: "licences.txt",
        source: `${texts.join(`\n\n${"-".repeat(80)}\n\n`)}\n`,
      });
    },
  };
}
