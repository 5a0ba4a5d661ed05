import type { BatchOut } from "@/api/types";

/** A batch whose picture is decoded, so that grid and numbers change together. */
export interface DecodedBatch {
  batch: BatchOut;
  /** None for samples that are no images, and where it cannot be decoded: that leaves the numbers. */
  picture: ImageBitmap | null;
}

export async function decode(batch: BatchOut): Promise<DecodedBatch> {
  if (batch.png === null) return { batch, picture: null };
  const png = new Blob([bytesOf(batch.png)], { type: "image/png" });
  return { batch, picture: await createImageBitmap(png).catch(() => null) };
}

/** The bytes behind base64 text. */
function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
