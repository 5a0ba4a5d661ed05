/** Where a floating layer stands beside the control it belongs to; never over it, never off the screen. */

export type Side = "top" | "bottom" | "left" | "right";
export type Align = "start" | "center" | "end";

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

interface Size {
  width: number;
  height: number;
}

const EDGE = 8;

function along(start: number, length: number, own: number, align: Align): number {
  if (align === "start") return start;
  return align === "end" ? start + length - own : start + (length - own) / 2;
}

function clamp(value: number, own: number, whole: number): number {
  return Math.max(EDGE, Math.min(value, whole - own - EDGE));
}

/** The other side is taken when the wished one has no room and the other has. */
function sideWithRoom(anchor: Box, layer: Size, screen: Size, side: Side, gap: number): Side {
  const room: Record<Side, boolean> = {
    top: anchor.top - gap - layer.height >= EDGE,
    bottom: anchor.top + anchor.height + gap + layer.height <= screen.height - EDGE,
    left: anchor.left - gap - layer.width >= EDGE,
    right: anchor.left + anchor.width + gap + layer.width <= screen.width - EDGE,
  };
  const other: Record<Side, Side> = { top: "bottom", bottom: "top", left: "right", right: "left" };
  return !room[side] && room[other[side]] ? other[side] : side;
}

export function positionBeside(
  anchor: Box,
  layer: Size,
  screen: Size,
  wished: Side,
  align: Align,
  gap = 4,
): { left: number; top: number } {
  const side = sideWithRoom(anchor, layer, screen, wished, gap);
  if (side === "top" || side === "bottom") {
    const top = side === "top" ? anchor.top - gap - layer.height : anchor.top + anchor.height + gap;
    return {
      left: clamp(along(anchor.left, anchor.width, layer.width, align), layer.width, screen.width),
      top,
    };
  }
  const left = side === "left" ? anchor.left - gap - layer.width : anchor.left + anchor.width + gap;
  return {
    left,
    top: clamp(along(anchor.top, anchor.height, layer.height, align), layer.height, screen.height),
  };
}
