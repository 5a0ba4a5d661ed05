import { describe, expect, it } from "vitest";
import { matchScore, nextEnabled, rankGroups } from "./paletteRanking";

const RUN = [
  { title: "Pause", words: "pause resume play continue" },
  { title: "Step" },
  { title: "Set learning rate and other hyperparameters…", words: "lr weight decay momentum" },
];
const VIEW = [{ title: "Dark theme", words: "colour mode" }, { title: "Restore chart size" }];
const GROUPS = [
  { heading: "Run", entries: RUN },
  { heading: "View", entries: VIEW },
];
const titles = (query: string) =>
  rankGroups(query, GROUPS).flatMap(({ entries }) => entries.map(({ title }) => title));

describe("the palette", () => {
  it("lists everything in its own order before something is typed", () => {
    expect(titles("")).toEqual([...RUN, ...VIEW].map(({ title }) => title));
    expect(titles("  ")).toHaveLength(5);
  });

  it("puts a title that starts with the word before one that holds it, and other words after titles", () => {
    expect(titles("re").slice(0, 2)).toEqual(["Restore chart size", "Pause"]);
    expect(titles("theme")).toEqual(["Dark theme"]);
    expect(titles("resume")[0]).toBe("Pause");
  });

  it("wants every typed word, in any order and any case", () => {
    expect(titles("RATE learning")).toEqual(["Set learning rate and other hyperparameters…"]);
    expect(titles("learning theme")).toEqual([]);
  });

  it("finds initials in their order where no word matches", () => {
    expect(titles("slr")).toEqual(["Set learning rate and other hyperparameters…"]);
    expect(matchScore("xyz", { title: "Step" })).toBe(0);
  });

  it("moves the group with the best match to the front", () => {
    expect(rankGroups("dark", GROUPS).map(({ heading }) => heading)).toEqual(["View"]);
    expect(rankGroups("st", GROUPS)[0]?.heading).toBe("Run");
  });
});

describe("nextEnabled", () => {
  it("goes round and passes over what cannot be done now", () => {
    expect(nextEnabled([true, false, true], 0, 1)).toBe(2);
    expect(nextEnabled([true, false, true], 2, 1)).toBe(0);
    expect(nextEnabled([true, false, true], 0, -1)).toBe(2);
    expect(nextEnabled([false, true], -1, 1)).toBe(1);
    expect(nextEnabled([false, false], 0, 1)).toBe(-1);
    expect(nextEnabled([], 0, 1)).toBe(-1);
  });
});
