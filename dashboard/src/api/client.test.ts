import { describe, expect, it, vi } from "vitest";
import { api, askEarly, takeToken } from "./client";

function tab(hash: string, kept: string | null = null) {
  const stored = new Map<string, string>(kept === null ? [] : [["midstep.token", kept]]);
  const shown: string[] = [];
  return {
    stored,
    shown,
    place: {
      location: { hash, pathname: "/live", search: "?tab=data" },
      history: {
        state: null,
        replaceState: (_: unknown, __: string, url?: string | URL | null) => shown.push(String(url)),
      },
      storage: {
        getItem: (key: string) => stored.get(key) ?? null,
        setItem: (key: string, value: string) => void stored.set(key, value),
      },
    },
  };
}

describe("takeToken", () => {
  it("moves the token from the address into the tab's storage", () => {
    const { place, stored, shown } = tab("#token=secret");
    expect(takeToken(place)).toBe("secret");
    expect([...stored.values()]).toEqual(["secret"]);
    expect(shown).toEqual(["/live?tab=data"]);
  });

  it("keeps the rest of the fragment", () => {
    const { place, shown } = tab("#token=secret&at=7");
    takeToken(place);
    expect(shown).toEqual(["/live?tab=data#at=7"]);
  });

  it("takes the kept one when the address has none", () => {
    const { place, shown } = tab("", "earlier");
    expect(takeToken(place)).toBe("earlier");
    expect(shown).toEqual([]);
  });
});

describe("askEarly", () => {
  it("hands its answer to the first who asks for the same, once", async () => {
    let asked = 0;
    vi.stubGlobal("fetch", async () => {
      asked += 1;
      return new Response(JSON.stringify({ asked }));
    });
    askEarly("/runs");
    expect(await api.get("/runs")).toEqual({ asked: 1 });
    expect(await api.get("/runs")).toEqual({ asked: 2 });
    vi.unstubAllGlobals();
  });

  it("tells who asks of a failure, as any other question would", async () => {
    vi.stubGlobal("fetch", async () => {
      throw new TypeError("network");
    });
    askEarly("/runs");
    await expect(api.get("/runs")).rejects.toMatchObject({ status: 0 });
    vi.unstubAllGlobals();
  });
});

describe("an answer that breaks off in the middle", () => {
  const broken = () =>
    new Response(new ReadableStream({ pull: (stream) => stream.error(new TypeError("network error")) }));

  it.each([
    ["text", () => api.get("/runs")],
    ["bytes", () => api.bytes("/runs")],
    ["a file", () => api.blob("/runs")],
  ])("is a server that does not answer, as %s too", async (_, ask) => {
    vi.stubGlobal("fetch", async () => broken());
    await expect(ask()).rejects.toMatchObject({ name: "ApiError", status: 0 });
    vi.unstubAllGlobals();
  });

  it("stays an end of one's own where one gave it up", async () => {
    const closing = new AbortController();
    vi.stubGlobal("fetch", async () => {
      closing.abort();
      return broken();
    });
    await expect(api.get("/runs", closing.signal)).rejects.not.toMatchObject({ name: "ApiError" });
    vi.unstubAllGlobals();
  });
});
