import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

type Tokens = Record<string, string>;

const css = readFileSync(new URL("./tokens.css", import.meta.url), "utf8");

function block(opening: string): Tokens {
  const start = css.indexOf(`${opening} {`);
  if (start < 0) throw new Error(`tokens.css has no block ${opening}`);
  const body = css.slice(start, css.indexOf("}", start));
  return Object.fromEntries(
    [...body.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6});/g)].map(([, name, value]) => [name, value]),
  );
}

function luminance(hex: string): number {
  const channels = [1, 3, 5].map((index) => Number.parseInt(hex.slice(index, index + 2), 16) / 255);
  const [red = 0, green = 0, blue = 0] = channels.map((c) =>
    c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(a: string, b: string): number {
  const [low = 0, high = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

/** Text on every ground it is put on. */
const TEXT: [string, string[]][] = [
  ["text", ["bg", "surface", "s2", "s3", "accent-soft", "warn-soft", "bad-soft"]],
  ["t2", ["bg", "surface", "s2", "s3", "accent-soft"]],
  ["t3", ["bg", "surface", "s2"]],
  ["accent", ["surface", "bg", "accent-soft"]],
  ["on-accent", ["accent", "accent-hover"]],
  ["on-bad", ["bad-mark"]],
  ["on-nan", ["nan"]],
  ["ok", ["surface", "ok-soft"]],
  ["warn", ["surface", "warn-soft"]],
  ["bad", ["surface", "bad-soft", "s2"]],
];

/** Marks and outlines of controls. */
const MARKS: [string, string[]][] = [
  ["line3", ["surface", "bg"]],
  ["accent", ["surface", "bg"]],
  ["ok-mark", ["surface"]],
  ["warn-mark", ["surface"]],
  ["bad-mark", ["surface"]],
  ["nan", ["surface", "bg"]],
  ...[1, 2, 3, 4, 5, 6].map((index): [string, string[]] => [`series-${index}`, ["surface"]]),
];

const light = block(":root");
const themes: [string, Tokens][] = [
  ["light", light],
  ["dark", block(':root[data-theme="dark"]')],
];

function pairs(list: [string, string[]][]): [string, string][] {
  return list.flatMap(([front, grounds]) => grounds.map((ground): [string, string] => [front, ground]));
}

describe.each(themes)("%s theme", (_, tokens) => {
  it.each(pairs(TEXT))("%s can be read on %s", (front, ground) => {
    expect(contrast(tokens[front] ?? "", tokens[ground] ?? "")).toBeGreaterThanOrEqual(4.5);
  });

  it.each(pairs(MARKS))("%s can be seen on %s", (front, ground) => {
    expect(contrast(tokens[front] ?? "", tokens[ground] ?? "")).toBeGreaterThanOrEqual(3);
  });
});

describe("the two ways into the dark theme", () => {
  it("set the same tokens", () => {
    expect(block(':root:not([data-theme="light"])')).toEqual(block(':root[data-theme="dark"]'));
  });

  it("set every colour of the light theme", () => {
    const dark = block(':root[data-theme="dark"]');
    expect(Object.keys(light).filter((name) => !(name in dark) && name !== "raised-ring")).toEqual([]);
  });
});
