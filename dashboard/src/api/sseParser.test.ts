import { describe, expect, it } from "vitest";
import { SseParser } from "./sseParser";

const WHOLE =
  'id: 0.7\ndata: {"a":1}\n\n: comment\n\ndata: first\ndata: second\r\n\r\nid: 0.9\rdata:no space\r\r';
const EVENTS = [
  { id: "0.7", data: '{"a":1}' },
  { id: "0.7", data: "first\nsecond" },
  { id: "0.9", data: "no space" },
];

describe("SseParser", () => {
  it("reads ids, several data lines and every kind of line end", () => {
    expect(new SseParser().push(WHOLE)).toEqual(EVENTS);
  });

  it("gives the same events wherever the text is cut", () => {
    for (let cut = 0; cut <= WHOLE.length; cut += 1) {
      const parser = new SseParser();
      expect([...parser.push(WHOLE.slice(0, cut)), ...parser.push(WHOLE.slice(cut))]).toEqual(EVENTS);
    }
  });

  it("gives the same events one character at a time", () => {
    const parser = new SseParser();
    expect([...WHOLE].flatMap((char) => parser.push(char))).toEqual(EVENTS);
  });

  it("keeps an unfinished event to itself", () => {
    expect(new SseParser().push("data: half")).toEqual([]);
  });
});
