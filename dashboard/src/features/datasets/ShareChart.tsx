/** Shares of the four variants over epochs, stacked: a column an epoch, a line at the epoch that is read. */
import type { KeyboardEvent, PointerEvent } from "react";
import type { Theme } from "@/charts/colors/viridis";
import { canvasLook, type Pen, useCanvas } from "@/charts/useCanvas";
import { useSize } from "@/charts/useSize";
import { stackOf, VARIANT_TOKENS } from "./curriculum";

interface ShareChartProps {
  label: string;
  /** An epoch a row. */
  shares: readonly (readonly number[])[];
  /** The row that is read; its epoch is one more. */
  epoch: number;
  onEpoch: (epoch: number) => void;
  theme: Theme;
}

const FONT = "11px Inter, system-ui, sans-serif";
const EDGE = { left: 52, right: 12, top: 6, bottom: 20 };

export function ShareChart({ label, shares, epoch, onEpoch, theme }: ShareChartProps) {
  const [container, size] = useSize<HTMLDivElement>();
  const canvas = useCanvas(size, (pen) => draw(pen, shares, epoch));
  const wide = Math.max(size.width - EDGE.left - EDGE.right, 1);
  const bounded = (wanted: number) => Math.min(Math.max(wanted, 0), shares.length - 1);
  const read = ({ nativeEvent }: PointerEvent) =>
    onEpoch(bounded(Math.floor(((nativeEvent.offsetX - EDGE.left) / wide) * shares.length)));
  const onKeyDown = (event: KeyboardEvent) => {
    const moves: Record<string, number> = {
      ArrowRight: epoch + 1,
      ArrowLeft: epoch - 1,
      PageDown: epoch + 10,
      PageUp: epoch - 10,
      Home: 0,
      End: shares.length - 1,
    };
    const next = moves[event.key];
    if (next === undefined) return;
    event.preventDefault();
    onEpoch(bounded(next));
  };
  return (
    <div
      ref={container}
      role="slider"
      aria-label={label}
      aria-valuemin={1}
      aria-valuemax={shares.length}
      aria-valuenow={epoch + 1}
      aria-valuetext={`Epoch ${epoch + 1}`}
      tabIndex={0}
      data-keys="own"
      data-theme-drawn={theme}
      onKeyDown={onKeyDown}
      className="relative min-h-0 min-w-0 flex-1"
    >
      <canvas
        ref={canvas}
        onPointerDown={read}
        onPointerMove={(event) => event.buttons > 0 && read(event)}
        {...canvasLook(size)}
      />
    </div>
  );
}

function draw(
  { context, token, width, height }: Pen,
  shares: readonly (readonly number[])[],
  epoch: number,
): void {
  const [right, bottom] = [width - EDGE.right, height - EDGE.bottom];
  const x = (at: number) => EDGE.left + (at / shares.length) * (right - EDGE.left);
  const y = (share: number) => bottom - share * (bottom - EDGE.top);
  shares.forEach((row, at) => {
    stackOf(row).forEach(([from, to], variant) => {
      context.fillStyle = token(VARIANT_TOKENS[variant] ?? "line3");
      // To whole pixels, or neighbours would show a seam.
      const [left, end] = [Math.round(x(at)), Math.round(x(at + 1))];
      context.fillRect(left, y(to), end - left, y(from) - y(to));
    });
  });
  drawAxes(context, token, x, y, shares.length);
  context.strokeStyle = token("text");
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x(epoch + 0.5), EDGE.top - 4);
  context.lineTo(x(epoch + 0.5), bottom);
  context.stroke();
}

function drawAxes(
  context: CanvasRenderingContext2D,
  token: Pen["token"],
  x: (at: number) => number,
  y: (share: number) => number,
  epochs: number,
): void {
  context.font = FONT;
  context.fillStyle = token("t3");
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const share of [0, 0.5, 1]) context.fillText(`${share * 100} %`, EDGE.left - 8, y(share) || 0);
  context.textAlign = "center";
  context.textBaseline = "top";
  const stride = epochs > 50 ? 20 : epochs > 20 ? 10 : 5;
  for (let at = 0; at <= epochs; at += stride) {
    const epoch = Math.max(at, 1);
    context.fillText(String(epoch), x(epoch - 0.5), y(0) + 5);
  }
}
