import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Fetcher, type Latest } from "./captures";

describe("Fetcher", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function setUp(tookMs: number) {
    const requested: string[] = [];
    const shown: Latest<string>[] = [];
    const load = (key: string) => {
      requested.push(key);
      return new Promise<string>((resolve) => setTimeout(() => resolve(`data ${key}`), tookMs));
    };
    return { requested, shown, fetcher: new Fetcher<string>(load, (latest) => shown.push(latest)) };
  }

  it("asks at most once per interval while keys run by, and ends on the newest", async () => {
    const { requested, shown, fetcher } = setUp(10);
    for (let step = 0; step < 100; step += 1) {
      fetcher.setKey(String(step), 250);
      await vi.advanceTimersByTimeAsync(10);
    }
    await vi.advanceTimersByTimeAsync(500);
    expect(requested.length).toBeLessThanOrEqual(6);
    expect(shown.at(-1)).toEqual({ data: "data 99", key: "99", error: null });
  });

  it("asks together with others, whenever each of them began", async () => {
    const requested: number[][] = [];
    for (let panel = 0; panel < 3; panel += 1) {
      const own: number[] = [];
      requested.push(own);
      const load = (key: string) => {
        own.push(performance.now());
        return new Promise<string>((resolve) => setTimeout(() => resolve(key), 10 * panel));
      };
      const fetcher = new Fetcher<string>(load, () => {});
      setInterval(() => fetcher.setKey(String(performance.now()), 1000), 70 + panel);
      await vi.advanceTimersByTimeAsync(310);
    }
    const first = Math.ceil(performance.now() / 1000) * 1000 + 1000;
    await vi.advanceTimersByTimeAsync(5000);
    const later = requested.map((times) => times.filter((time) => time >= first));
    expect(later[0]).toEqual([first, first + 1000, first + 2000, first + 3000]);
    expect(later[1]).toEqual(later[0]);
    expect(later[2]).toEqual(later[0]);
  });

  it("shows what is new with the next picture while a run goes on, and at once when it stands", async () => {
    const { shown, fetcher } = setUp(30);
    fetcher.setKey("a", 1000);
    await vi.advanceTimersByTimeAsync(30);
    expect(shown.map(({ key }) => key)).toEqual(["a"]); // there was nothing before it
    await vi.advanceTimersByTimeAsync(2000 - (performance.now() % 1000));
    fetcher.setKey("b", 1000);
    await vi.advanceTimersByTimeAsync(199);
    expect(shown.length).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(shown.map(({ key }) => key)).toEqual(["a", "b"]);
    await vi.advanceTimersByTimeAsync(1000 - (performance.now() % 1000));
    fetcher.setKey("c", 1000);
    await vi.advanceTimersByTimeAsync(31);
    fetcher.setKey("c", 0);
    expect(shown.map(({ key }) => key)).toEqual(["a", "b", "c"]);
    await vi.advanceTimersByTimeAsync(1000);
    expect(shown.length).toBe(3);
  });

  it("waits for no beat when nothing was new at the last one", async () => {
    const { requested, fetcher } = setUp(1);
    fetcher.setKey("a", 1000);
    await vi.advanceTimersByTimeAsync(2300);
    fetcher.setKey("b", 1000);
    expect(requested).toEqual(["a", "b"]);
    fetcher.close();
  });

  it("never has two requests on the way, and each one runs to its end", async () => {
    const { requested, shown, fetcher } = setUp(1000);
    fetcher.setKey("a", 0);
    fetcher.setKey("b", 0);
    fetcher.setKey("c", 0);
    expect(requested).toEqual(["a"]);
    await vi.advanceTimersByTimeAsync(2500);
    expect(requested).toEqual(["a", "c"]);
    expect(shown.map(({ key }) => key)).toEqual(["a", "c"]);
  });

  it("fetches at once when the interval falls away", async () => {
    const { requested, fetcher } = setUp(1);
    fetcher.setKey("a", 250);
    await vi.advanceTimersByTimeAsync(5);
    fetcher.setKey("b", 250);
    fetcher.setKey("b", 0);
    expect(requested).toEqual(["a", "b"]);
    fetcher.close();
  });

  it("keeps what it had when a request fails, says why, and asks again", async () => {
    const shown: Latest<string>[] = [];
    let broken = false;
    const load = (key: string) =>
      broken ? Promise.reject(new Error("gone")) : Promise.resolve(`data ${key}`);
    const fetcher = new Fetcher<string>(load, (latest) => shown.push(latest));
    fetcher.setKey("a", 0);
    await vi.advanceTimersByTimeAsync(1);
    broken = true;
    fetcher.setKey("b", 0);
    await vi.advanceTimersByTimeAsync(1);
    expect(shown.at(-1)).toMatchObject({ data: "data a", key: "a", error: { message: "gone" } });
    broken = false;
    await vi.advanceTimersByTimeAsync(1100);
    expect(shown.at(-1)).toEqual({ data: "data b", key: "b", error: null });
  });

  it("forgets everything without a key", async () => {
    const { shown, fetcher } = setUp(1);
    fetcher.setKey("a", 0);
    await vi.advanceTimersByTimeAsync(5);
    fetcher.setKey(null, 0);
    expect(shown.at(-1)).toEqual({ data: null, key: null, error: null });
  });
});
