/** The samples of a batch, drawn as their kind wants it. */
import { lazy, Suspense } from "react";
import type { TileSheet } from "@/api/tiles";
import { lookOf } from "./kinds";
import type { SampleRowsProps } from "./rows/SampleTable";
import type { MaskChoice } from "./tiles/PictureTiles";
import type { SampleGridProps } from "./tiles/TileGrid";

// A run shows one kind: only its code is loaded.
const PictureTiles = lazy(() => import("./tiles/PictureTiles"));
const LineTiles = lazy(() => import("./tiles/LineTiles"));
const TextRows = lazy(() => import("./rows/TextRows"));
const SampleTable = lazy(() => import("./rows/SampleTable"));

interface SampleListProps extends Omit<SampleGridProps, "order">, SampleRowsProps {
  /** The tiles of pictures. */
  sheet: TileSheet | null;
  mask: MaskChoice | null;
  /** Whether a table stands in place of tiles. */
  asTable: boolean;
}

export function SampleList({ sheet, mask, asTable, ...props }: SampleListProps) {
  return (
    <Suspense fallback={<div className="min-h-0 flex-1" />}>
      {listOf({ sheet, mask, asTable, ...props })}
    </Suspense>
  );
}

function listOf({ sheet, mask, asTable, ...props }: SampleListProps) {
  const { batch, batchIndices } = props;
  const look = asTable ? "table" : lookOf(batch);
  const grid = { ...props, order: batchIndices };
  if (look === "pictures" && sheet !== null) return <PictureTiles {...grid} sheet={sheet} mask={mask} />;
  if (look === "lines" && batch.lines !== null)
    return <LineTiles {...grid} kind={batch.kind} lines={batch.lines} />;
  return look === "texts" ? <TextRows {...props} /> : <SampleTable {...props} />;
}

/** Whether the samples are drawn on a canvas, which can be exported and has a table view. */
export function isDrawn(props: Pick<SampleListProps, "batch" | "sheet" | "asTable">): boolean {
  if (props.asTable) return false;
  const look = lookOf(props.batch);
  return look === "lines" || (look === "pictures" && props.sheet !== null);
}
