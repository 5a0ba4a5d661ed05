/** Where the tiles of an image grid lie: in the picture that arrives and on the panel that shows them. */

export interface Rectangle {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface PictureGrid {
  columns: number;
  tile_width: number;
  tile_height: number;
}

/** Cuts tile `index` out of the picture: column index % columns, row index // columns. */
export function pictureTile(grid: PictureGrid, index: number): Rectangle {
  return {
    x: (index % grid.columns) * grid.tile_width,
    y: Math.floor(index / grid.columns) * grid.tile_height,
    width: grid.tile_width,
    height: grid.tile_height,
  };
}

export interface TileLayout {
  columns: number;
  rows: number;
  /** Longer side of an image in CSS pixels. */
  size: number;
  width: number;
  height: number;
  /** From one tile's left edge to the next; may be a fraction, the tile itself starts on a whole pixel. */
  pitchX: number;
  pitchY: number;
  /** Height of all rows. */
  totalHeight: number;
}

export interface TileOptions {
  /** Smallest side of a tile; below it the grid scrolls. */
  smallest: number;
  largest: number;
  /** Space between two tiles in a row, at least. */
  gap: number;
  /** Height under the image for bar, label and gap. */
  caption: number;
}

/** 28 px of image, 1 + 3 px of bar, 12 px of text, 2 px to the next row. */
export const BATCH_TILES: TileOptions = { smallest: 28, largest: 112, gap: 10, caption: 18 };

/** The largest whole-pixel tiles with which `count` tiles fit; the smallest ones when none does. */
export function layOutTiles(
  count: number,
  area: { width: number; height: number },
  aspect = 1,
  options: TileOptions = BATCH_TILES,
): TileLayout {
  let best = layOut(count, area.width, options.smallest, aspect, options);
  for (let size = options.smallest + 1; size <= options.largest; size += 1) {
    const larger = layOut(count, area.width, size, aspect, options);
    if (larger.totalHeight <= area.height && larger.columns * size <= area.width) best = larger;
  }
  return best;
}

function layOut(
  count: number,
  areaWidth: number,
  size: number,
  aspect: number,
  { gap, caption }: TileOptions,
): TileLayout {
  const width = aspect >= 1 ? size : Math.max(1, Math.round(size * aspect));
  const height = aspect >= 1 ? Math.max(1, Math.round(size / aspect)) : size;
  const columns = Math.max(1, Math.floor((areaWidth + gap) / (width + gap)));
  const rows = Math.max(1, Math.ceil(count / columns));
  const pitchX = columns > 1 && rows > 1 ? (areaWidth - width) / (columns - 1) : width + gap;
  const pitchY = height + caption;
  return { columns, rows, size, width, height, pitchX, pitchY, totalHeight: rows * pitchY };
}

/** Where tile `index` is drawn. */
export function tileAt(layout: TileLayout, index: number): Rectangle {
  return {
    x: Math.round((index % layout.columns) * layout.pitchX),
    y: Math.floor(index / layout.columns) * layout.pitchY,
    width: layout.width,
    height: layout.height,
  };
}

/** Which tile lies under a point, or null between the tiles and behind the last. */
export function tileUnder(layout: TileLayout, count: number, x: number, y: number): number | null {
  const column = Math.floor((x + (layout.pitchX - layout.width) / 2) / layout.pitchX);
  const index = Math.floor(y / layout.pitchY) * layout.columns + column;
  if (y < 0 || column < 0 || column >= layout.columns || index >= count) return null;
  return index;
}

/** Where an arrow or paging key leads in a grid of `count` tiles; null for any other key. */
export function moveInGrid(key: string, index: number, columns: number, count: number): number | null {
  const inside = (wanted: number) => (wanted >= 0 && wanted < count ? wanted : index);
  switch (key) {
    case "ArrowRight":
      return inside(index + 1);
    case "ArrowLeft":
      return inside(index - 1);
    case "ArrowDown":
      return inside(index + columns);
    case "ArrowUp":
      return inside(index - columns);
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}
