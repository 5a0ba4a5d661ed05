/** The pages of the rail. A new page is one line here: name, path, key, icon, and where its code is. */
import { type ComponentType, lazy } from "react";
import type { IconName } from "@/ui";

export interface PageEntry {
  name: string;
  path: string;
  keys: string;
  icon: IconName;
  load: () => Promise<ComponentType>;
}

const ENTRIES: readonly PageEntry[] = [
  {
    name: "Live",
    path: "/live",
    keys: "G L",
    icon: "live",
    load: async () => (await import("./pages/LivePage")).LivePage,
  },
  {
    name: "Runs",
    path: "/runs",
    keys: "G R",
    icon: "runs",
    load: async () => (await import("./pages/RunsPage")).RunsPage,
  },
  {
    name: "Influence",
    path: "/influence",
    keys: "G I",
    icon: "influence",
    load: async () => (await import("./pages/InfluencePage")).InfluencePage,
  },
  {
    name: "Data",
    path: "/data",
    keys: "G D",
    icon: "data",
    load: async () => (await import("./pages/DataPage")).DataPage,
  },
];

/** Each page's code is fetched when the page is first opened. */
export const PAGES = ENTRIES.map((entry) => ({
  ...entry,
  Page: lazy(async () => ({ default: await entry.load() })),
}));

/** Pages that show no single run. */
export const PAGES_WITHOUT_RUN: ReadonlySet<string> = new Set(["/runs", "/data"]);

/** One run of the list; it belongs to the Runs page. */
export const RunPage = lazy(async () => ({ default: (await import("./pages/RunPage")).RunPage }));
export const RUN_PATH = "/runs/:id";

/** The entry of an address; the first one where there is none. */
export function pageOf(path: string): PageEntry {
  return (PAGES.find((page) => path.startsWith(page.path)) ?? PAGES[0]) as PageEntry;
}
