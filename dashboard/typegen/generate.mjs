// Writes src/api/types.gen.ts from src/api/openapi.json; with --check it only compares and fails on drift.
// It lives in a folder of its own because openapi-typescript needs the compiler API, which TypeScript 7 does not have.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";

const source = new URL("../src/api/openapi.json", import.meta.url);
const target = new URL("../src/api/types.gen.ts", import.meta.url);
const heading = "// Generated from openapi.json by `npm run types`. Do not edit.\n\n";

const wanted = heading + astToString(await openapiTS(source));
if (process.argv.includes("--check")) {
  const found = await readFile(target, "utf8").catch(() => "");
  if (found !== wanted) {
    console.error(
      "src/api/types.gen.ts differs from src/api/openapi.json. Run `npm run types` in dashboard/.",
    );
    process.exit(1);
  }
  console.log("types.gen.ts matches openapi.json");
} else {
  await writeFile(target, wanted);
  console.log(`wrote ${fileURLToPath(target)}`);
}
