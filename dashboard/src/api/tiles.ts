/** Pictures of samples: many tiles in one image, decoded off the main thread. */
import { ApiError, type Reader, runPath } from "./client";
import type { BatchOut, GridOut } from "./types";

export type MaskLayer = NonNullable<BatchOut["mask"]>["layers"][number];

/** The tiles of samples `first` to `first + count`. */
export interface TileSheet {
  picture: ImageBitmap;
  /** Masks of the tiles, with a class as the grey level of each pixel; empty where there is none. */
  layers: ReadonlyMap<MaskLayer, ImageBitmap>;
  grid: GridOut;
  first: number;
  count: number;
  /** Whether some pixels are transparent: they stand for values that are not finite. */
  hasGaps: boolean;
}

/** Geometry, labels and losses of some samples, with their tiles where they are images. */
export interface ShownBatch {
  batch: BatchOut;
  /** Null for samples that are not images, and where the picture cannot be decoded. */
  sheet: TileSheet | null;
}

const MAX_SHEETS = 4;

/** The last sheets by name. A decoded picture holds memory until it is closed. */
export class TileSheets {
  private readonly sheets = new Map<string, TileSheet>();

  constructor(private readonly limit = MAX_SHEETS) {}

  get(name: string): TileSheet | undefined {
    const sheet = this.sheets.get(name);
    if (sheet !== undefined) this.put(name, sheet);
    return sheet;
  }

  /** Keeps a sheet; the one that was used longest ago is closed. */
  put(name: string, sheet: TileSheet): void {
    this.sheets.delete(name);
    this.sheets.set(name, sheet);
    for (const [oldest, { picture, layers }] of this.sheets) {
      if (this.sheets.size <= this.limit) return;
      this.sheets.delete(oldest);
      for (const each of [picture, ...layers.values()]) each.close();
    }
  }
}

const sheets = new TileSheets();
/** Runs whose last batch had no picture: none is requested before the answer says that there is one. */
const withoutPicture = new Set<string>();

export interface BatchRange {
  first: number;
  count: number;
}

/** Requests after which a run that replaces its batch faster than it answers is shown without tiles. */
const MAX_ATTEMPTS = 3;
const OTHER_STEP = 409;

/**
 * Some samples with their tiles, both of the same capture.
 *
 * With a known `etag` geometry and picture are requested at once; otherwise the answer names the picture.
 */
export async function readBatch(
  reader: Reader,
  runId: string,
  { first, count }: BatchRange,
  etag: string | null,
  signal: AbortSignal,
): Promise<ShownBatch> {
  const path = runPath(runId, "/debug/batch");
  const range = `first=${first}&count=${count}`;
  const picture = async (name: string, layer?: MaskLayer): Promise<ArrayBuffer | null> => {
    const chosen = layer === undefined ? "" : `&layer=${layer}`;
    try {
      return await reader.bytes(`${path}/picture?${range}&etag=${encodeURIComponent(name)}${chosen}`, signal);
    } catch (error) {
      // The run has replaced the capture meanwhile.
      if (error instanceof ApiError && error.status === OTHER_STEP) return null;
      throw error;
    }
  };
  const isKnown = etag !== null && sheets.get(sheetName(runId, etag, first, count)) !== undefined;
  let early = etag === null || isKnown || withoutPicture.has(runId) ? null : picture(etag);
  // Samples that are not images have no picture; the answer says so.
  early?.catch(() => undefined);
  for (let attempt = 1; ; attempt += 1) {
    const batch = await reader.get<"/runs/{run_id}/debug/batch">(`${path}?${range}`, signal);
    if (batch.grid === null) withoutPicture.add(runId);
    else withoutPicture.delete(runId);
    if (batch.grid === null) return { batch, sheet: null };
    const name = sheetName(runId, batch.etag, first, count);
    const known = sheets.get(name);
    if (known !== undefined) return { batch, sheet: known };
    const [bytes, ...masks] = await Promise.all([
      early !== null && batch.etag === etag ? early : picture(batch.etag),
      ...(batch.mask?.layers ?? []).map((layer) => picture(batch.etag, layer)),
    ]);
    early = null;
    if (bytes && masks.every((mask) => mask !== null))
      return { batch, sheet: await decodeSheet(name, batch, batch.grid, bytes, masks) };
    if (attempt === MAX_ATTEMPTS) return { batch, sheet: null };
  }
}

function sheetName(runId: string, etag: string, first: number, count: number): string {
  return JSON.stringify([runId, etag, first, count]);
}

async function decodeSheet(
  name: string,
  batch: BatchOut,
  grid: GridOut,
  bytes: ArrayBuffer,
  masks: readonly ArrayBuffer[],
): Promise<TileSheet | null> {
  const picture = await decodePicture(new Blob([bytes], { type: "image/png" }));
  if (picture === null) return null;
  const layers = new Map<MaskLayer, ImageBitmap>();
  for (const [index, layer] of (batch.mask?.layers ?? []).entries()) {
    const mask = await decodePicture(new Blob([masks[index] as ArrayBuffer], { type: "image/png" }));
    if (mask !== null) layers.set(layer, mask);
  }
  const { first, shown: count } = batch;
  const sheet = { picture, layers, grid, first, count, hasGaps: batch.nonfinite > 0 };
  sheets.put(name, sheet);
  return sheet;
}

/** The pixels of a picture as they are in the file; null where it cannot be decoded. */
export function decodePicture(blob: Blob): Promise<ImageBitmap | null> {
  return createImageBitmap(blob, { colorSpaceConversion: "none" }).catch(() => null);
}
