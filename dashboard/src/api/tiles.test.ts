import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError, type Reader } from "./client";
import { readBatch, type TileSheet, TileSheets } from "./tiles";
import type { BatchOut, GridOut, Problem } from "./types";

const GRID = { columns: 8, rows: 8, tile_width: 4, tile_height: 4 } as GridOut;
const RANGE = { first: 64, count: 64 };
let runs = 0;
let runId: string;

/** A server whose newest capture changes; it names each request. */
class FakeReader implements Reader {
  readonly requests: string[] = [];
  etag = "1.0.1";
  grid: GridOut | null = GRID;
  mask: BatchOut["mask"] = null;
  /** Called before each answer. */
  before: (path: string) => void = () => undefined;

  async get<T>(path: string): Promise<T> {
    this.before(path);
    this.requests.push(path.replace(/^.*\/debug\//, ""));
    const batch = {
      etag: this.etag,
      grid: this.grid,
      mask: this.mask,
      first: 64,
      shown: 64,
      nonfinite: 3,
    } as BatchOut;
    return batch as T;
  }

  async bytes(path: string): Promise<ArrayBuffer> {
    this.before(path);
    this.requests.push(path.replace(/^.*\/debug\//, ""));
    if (path.includes(`etag=${this.etag}`)) return new ArrayBuffer(8);
    throw new ApiError(409, { error: "other_step", message: "no longer held" } as Problem);
  }

  async blob(): Promise<Blob> {
    throw new Error("not used");
  }
}

const read = (reader: FakeReader, etag: string | null) =>
  readBatch(reader, runId, RANGE, etag, new AbortController().signal);

beforeEach(() => {
  runs += 1;
  runId = `run${runs}`; // sheets are kept by run
  vi.stubGlobal("createImageBitmap", async () => ({ close: vi.fn() }));
});
afterEach(() => void vi.unstubAllGlobals());

describe("readBatch", () => {
  it("requests geometry and picture of the known capture at once", async () => {
    const reader = new FakeReader();
    const { sheet } = await read(reader, "1.0.1");
    expect(reader.requests).toEqual([
      "batch/picture?first=64&count=64&etag=1.0.1",
      "batch?first=64&count=64",
    ]);
    expect(sheet).toMatchObject({ first: 64, count: 64, grid: GRID, hasGaps: true });
  });

  it("takes the picture of the capture that answered, if another one was expected", async () => {
    const reader = new FakeReader();
    const { batch, sheet } = await read(reader, "0.0.9");
    expect(batch.etag).toBe("1.0.1");
    expect(sheet).not.toBeNull();
    expect(reader.requests.at(-1)).toBe("batch/picture?first=64&count=64&etag=1.0.1");
  });

  it("reads both again when the capture is replaced between the two", async () => {
    const reader = new FakeReader();
    reader.before = (path) => {
      if (path.includes("picture") && reader.etag === "1.0.1") reader.etag = "2.0.2";
    };
    const { batch, sheet } = await read(reader, null);
    expect(batch.etag).toBe("2.0.2");
    expect(sheet).not.toBeNull();
  });

  it("requests no picture of a capture that it has, nor of samples that are not images", async () => {
    const reader = new FakeReader();
    const first = await read(reader, null);
    reader.requests.length = 0;
    expect((await read(reader, "1.0.1")).sheet).toBe(first.sheet);
    expect(reader.requests).toEqual(["batch?first=64&count=64"]);
    reader.grid = null;
    expect((await read(reader, null)).sheet).toBeNull();
  });
});

describe("readBatch of masks", () => {
  it("requests the layers of the same capture, and shows all or none of them", async () => {
    const reader = new FakeReader();
    reader.mask = { layers: ["mask", "prediction"], classes: [] };
    const { sheet } = await read(reader, null);
    expect(reader.requests.slice(1)).toEqual([
      "batch/picture?first=64&count=64&etag=1.0.1",
      "batch/picture?first=64&count=64&etag=1.0.1&layer=mask",
      "batch/picture?first=64&count=64&etag=1.0.1&layer=prediction",
    ]);
    expect([...(sheet?.layers.keys() ?? [])]).toEqual(["mask", "prediction"]);
  });

  it("requests no picture in advance from a run that had none", async () => {
    const reader = new FakeReader();
    reader.grid = null;
    await read(reader, "1.0.1");
    reader.requests.length = 0;
    await read(reader, "1.0.1");
    expect(reader.requests).toEqual(["batch?first=64&count=64"]);
  });
});

describe("TileSheets", () => {
  it("keeps four and closes the one used longest ago", () => {
    const sheets = new TileSheets();
    const made = ["a", "b", "c", "d", "e"].map((name) => {
      const sheet = { picture: { close: vi.fn() }, layers: new Map() } as unknown as TileSheet;
      sheets.put(name, sheet);
      if (name === "d") sheets.get("a");
      return sheet;
    });
    const closed = made.map(({ picture }) => vi.mocked(picture.close).mock.calls.length);
    expect(closed).toEqual([0, 1, 0, 0, 0]);
    expect(sheets.get("b")).toBeUndefined();
    expect(sheets.get("a")).toBe(made[0]);
  });
});
