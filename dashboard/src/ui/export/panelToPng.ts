/** A panel as a PNG: its grounds, canvases and texts where they stand, without its buttons. */

/** Everything a panel shows; `panel` is any element inside it. */
export function panelToPng(inside: Element | null): Promise<Blob | null> {
  const panel = inside?.closest("section") ?? null;
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  if (panel === null || context === null) return Promise.resolve(null);
  const frame = panel.getBoundingClientRect();
  const ratio = Math.max(2, devicePixelRatio);
  canvas.width = Math.round(frame.width * ratio);
  canvas.height = Math.round(frame.height * ratio);
  context.scale(ratio, ratio);
  context.translate(-frame.left, -frame.top);
  context.imageSmoothingEnabled = false;
  paint(context, panel, frame);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function paint(context: CanvasRenderingContext2D, element: Element, clip: DOMRect): void {
  if (element.hasAttribute("data-tools") || element.hasAttribute("popover")) return;
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  if (style.visibility === "hidden" || style.opacity === "0" || box.width <= 1) return;
  const inner = overlap(clip, box);
  if (style.display !== "contents" && inner === null) return;
  context.save();
  if (inner && style.overflow !== "visible") {
    context.beginPath();
    context.rect(inner.left, inner.top, inner.width, inner.height);
    context.clip();
  }
  if (inner) ground(context, box, style);
  if (element instanceof HTMLCanvasElement && element.width > 0) {
    context.drawImage(element, box.left, box.top, box.width, box.height);
  }
  for (const child of element.childNodes) {
    if (child instanceof Element) paint(context, child, inner ?? clip);
    else if (child instanceof Text) write(context, child, style);
  }
  context.restore();
}

/** The ground of an element; a dot or a ring where it is as round as that. */
function ground(context: CanvasRenderingContext2D, box: DOMRect, style: CSSStyleDeclaration): void {
  const round = Number.parseFloat(style.borderTopLeftRadius) >= box.height / 2;
  context.beginPath();
  if (round) context.roundRect(box.left, box.top, box.width, box.height, box.height / 2);
  else context.rect(box.left, box.top, box.width, box.height);
  context.fillStyle = style.backgroundColor;
  context.fill();
  const edge = Number.parseFloat(style.borderTopWidth);
  if (!round || !(edge > 0)) return;
  context.strokeStyle = style.borderTopColor;
  context.lineWidth = edge;
  context.stroke();
}

function write(context: CanvasRenderingContext2D, text: Text, style: CSSStyleDeclaration): void {
  const words = text.data.trim();
  if (words === "") return;
  const range = document.createRange();
  range.selectNodeContents(text);
  const box = range.getBoundingClientRect();
  if (box.width <= 1) return;
  context.fillStyle = style.color;
  context.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  context.textBaseline = "middle";
  // Digits are as wide as each other on the page but not here, so numbers keep their right edge.
  const right = style.textAlign === "right" || style.textAlign === "end";
  context.textAlign = right ? "right" : "left";
  context.fillText(words, right ? box.right : box.left, box.top + box.height / 2);
}

function overlap(a: DOMRect, b: DOMRect): DOMRect | null {
  const left = Math.max(a.left, b.left);
  const top = Math.max(a.top, b.top);
  const width = Math.min(a.right, b.right) - left;
  const height = Math.min(a.bottom, b.bottom) - top;
  return width > 0 && height > 0 ? new DOMRect(left, top, width, height) : null;
}
