import { useEffect, useState } from "react";
import type { BatchOut } from "@/api/types";

/** A batch whose picture is decoded, so that grid and numbers change together. */
export interface DecodedBatch {
  batch: BatchOut;
  picture: ImageBitmap | null;
}

/** The bytes behind base64 text. */
export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

async function decode(batch: BatchOut): Promise<DecodedBatch> {
  if (batch.png === null) return { batch, picture: null };
  const picture = await createImageBitmap(new Blob([bytesOf(batch.png)], { type: "image/png" }));
  return { batch, picture };
}

/** The newest batch that is ready to be drawn; the one before stays until then. */
export function usePicture(batch: BatchOut | null): DecodedBatch | null {
  const [ready, setReady] = useState<DecodedBatch | null>(null);
  useEffect(() => {
    if (batch === null) {
      setReady(null);
      return;
    }
    let current = true;
    decode(batch)
      // A picture that cannot be decoded still leaves the numbers.
      .catch((): DecodedBatch => ({ batch, picture: null }))
      .then((decoded) => {
        if (current) setReady(decoded);
        else decoded.picture?.close();
      });
    return () => {
      current = false;
    };
  }, [batch]);
  return ready;
}
