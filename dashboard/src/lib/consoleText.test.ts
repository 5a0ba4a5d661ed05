import { describe, expect, it } from "vitest";
import { asPrinted, EMPTY_CONSOLE, MAX_CHARACTERS, withPart } from "./consoleText";

describe("withPart", () => {
  const first = { text: "one\n", start: 0, end: 4 };

  it("appends what follows and begins anew where it does not", () => {
    const one = withPart(EMPTY_CONSOLE, first);
    const two = withPart(one, { text: "two\n", start: 4, end: 8 });
    expect(two).toEqual({ text: "one\ntwo\n", end: 8, cut: false });
    const anew = withPart(two, { text: "x", start: 100, end: 101 });
    expect(anew).toEqual({ text: "x", end: 101, cut: true });
  });

  it("keeps the end of a long text and says so", () => {
    const long = withPart(withPart(EMPTY_CONSOLE, first), {
      text: "y".repeat(MAX_CHARACTERS),
      start: 4,
      end: 4 + MAX_CHARACTERS,
    });
    expect(long.text.length).toBe(MAX_CHARACTERS);
    expect(long.cut).toBe(true);
  });
});

describe("asPrinted", () => {
  it("shows progress bars as they ended and no colour codes", () => {
    expect(asPrinted("10 %\r50 %\r100 %\n\u001b[31mred\u001b[0m\r\nend")).toBe("100 %\nred\nend");
  });
});
