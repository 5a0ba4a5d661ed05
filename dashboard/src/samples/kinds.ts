/** The kinds of samples and how a list of them is drawn: the page's side of the server's registry. */
import type { BatchOut } from "@/api/types";

export type SampleKind = BatchOut["kind"];

/** A grid of pictures, a grid of curves, rows of text, or a table. */
export type Look = "pictures" | "lines" | "texts" | "table";

const LOOKS: Record<SampleKind, Look> = {
  images: "pictures",
  image_mask: "pictures",
  frames: "pictures",
  audio: "lines",
  series: "lines",
  text: "texts",
  tokens: "texts",
  table: "table",
  vectors: "table",
  nested: "table",
  other: "table",
};

/** How the list is drawn; a table stands in where what a kind needs is missing. */
export function lookOf(batch: BatchOut): Look {
  const look = LOOKS[batch.kind];
  if (look === "pictures" && batch.grid === null) return "table";
  if (look === "lines" && batch.lines === null) return "table";
  if (look === "texts" && batch.texts === null && batch.rows === null) return "table";
  return look;
}
