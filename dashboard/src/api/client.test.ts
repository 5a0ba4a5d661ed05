import { describe, expect, it, vi } from "vitest";
import { api, prefetch, takeToken } from "./client";

function tab(hash: string, kept: string | null = null) {
  const stored = new Map<string, string>(kept === null ? [] : [["midstep.token", kept]]);
  const shown: string[] = [];
  return {
    stored,
    shown,
    source: {
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
    const { source, stored, shown } = tab("#token=secret");
    expect(takeToken(source)).toBe("secret");
    expect([...stored.values()]).toEqual(["secret"]);
    expect(shown).toEqual(["/live?tab=data"]);
  });

  it("keeps the rest of the fragment", () => {
    const { source, shown } = tab("#token=secret&at=7");
    takeToken(source);
    expect(shown).toEqual(["/live?tab=data#at=7"]);
  });

  it("takes the kept one when the address has none", () => {
    const { source, shown } = tab("", "earlier");
    expect(takeToken(source)).toBe("earlier");
    expect(shown).toEqual([]);
  });
});

describe("prefetch", () => {
  it("hands its answer to the first who asks for the same, once", async () => {
    let requests = 0;
    vi.stubGlobal("fetch", async () => {
      requests += 1;
      return new Response(JSON.stringify({ requests }));
    });
    prefetch("/runs");
    expect(await api.get("/runs")).toEqual({ requests: 1 });
    expect(await api.get("/runs")).toEqual({ requests: 2 });
    vi.unstubAllGlobals();
  });

  it("tells who asks of a failure, as any other question would", async () => {
    vi.stubGlobal("fetch", async () => {
      throw new TypeError("network");
    });
    prefetch("/runs");
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
