import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { licences } from "./scripts/licences.mjs";

// `npm run dev` forwards the API to a midstep server; the Origin header is dropped because the guard accepts only its own.
const server = process.env.MIDSTEP_SERVER ?? "http://127.0.0.1:8765";

const ownLicences = [
  "styles/fonts/inter-OFL.txt",
  "styles/fonts/jetbrains-mono-OFL.txt",
  "ui/icons-LICENSE.txt",
];

/** What the first page shares with those that come later: in one file it is smaller than in a dozen. */
const BASE = new RegExp(
  [
    "node_modules/(react|react-dom|scheduler)/",
    "src/api/(client|batchedRequests|safetensors|scalars|tiles|types)",
    "src/charts/(useSize|colors/viridis)",
    "src/lib/(frameClock|download|format|ids|messages|statistics|toasts|urlState|useThrottledStore)",
    "src/live/(captures|commandAvailability|commands|connection|fillSeries|hooks|keptStop|latestRequest|series|stepRequest|store|subscriptions)",
    "src/ui/Icon",
    "src/ui/table/(rowClass|sortCells)",
  ].join("|"),
);
const inSource = (file: string) => fileURLToPath(new URL(`./src/${file}`, import.meta.url));

export default defineConfig({
  plugins: [react(), tailwindcss(), licences(ownLicences.map(inSource))],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: "../src/midstep/server/static",
    emptyOutDir: true,
    manifest: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "base", test: BASE }] } } },
  },
  server: {
    proxy: {
      "/api": {
        target: server,
        changeOrigin: true,
        configure: (proxy) =>
          proxy.on("proxyReq", (request) => {
            request.removeHeader("origin");
            request.removeHeader("sec-fetch-site");
          }),
      },
    },
  },
  // Five seconds are little on a machine that is busy with other things.
  test: { environment: "node", include: ["src/**/*.test.ts", "src/**/*.test.tsx"], testTimeout: 60_000 },
});
