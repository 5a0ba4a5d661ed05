// Fails when the page grew too large: first load ≤ 140 kB of script and style gzipped, all ≤ 400 kB, fonts ≤ 60 kB apart.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const KB = 1000;
const BARS = { "first load": 140 * KB, "all script and style": 400 * KB, fonts: 60 * KB };

const root = fileURLToPath(new URL("../../src/midstep/server/static/", import.meta.url));
const manifest = JSON.parse(readFileSync(join(root, ".vite/manifest.json"), "utf8"));

function gzipped(file) {
  return gzipSync(readFileSync(join(root, file)), { level: 9 }).length;
}

// What opens first: the frame and the Live page. Other pages, charts and dialogs are imported when they are needed.
const FIRST_PAGE = "src/app/pages/LivePage.tsx";

/** The entry and the first page with everything they import before they run. */
function firstLoad() {
  const files = new Set();
  const visit = (key) => {
    const chunk = manifest[key];
    if (files.has(chunk.file)) return;
    files.add(chunk.file);
    for (const style of chunk.css ?? []) files.add(style);
    for (const next of chunk.imports ?? []) visit(next);
  };
  for (const [key, chunk] of Object.entries(manifest)) if (chunk.isEntry || key === FIRST_PAGE) visit(key);
  return [...files];
}

const assets = readdirSync(join(root, "assets")).map((name) => `assets/${name}`);
const sum = (files, size) => files.reduce((total, file) => total + size(file), 0);
const found = {
  "first load": sum(firstLoad(), gzipped),
  "all script and style": sum(
    assets.filter((file) => /\.(js|css)$/.test(file)),
    gzipped,
  ),
  fonts: sum(
    assets.filter((file) => file.endsWith(".woff2")),
    (file) => statSync(join(root, file)).size,
  ),
};

let failed = false;
for (const [name, bytes] of Object.entries(found)) {
  const over = bytes > BARS[name];
  failed ||= over;
  console.log(`${over ? "TOO LARGE " : ""}${name}: ${(bytes / KB).toFixed(1)} kB of ${BARS[name] / KB} kB`);
}
if (failed) process.exit(1);
