/** A canvas as a PNG on the panel's own background, so that its text can be read anywhere. */
export function pngOf(source: HTMLCanvasElement): Promise<Blob | null> {
  const copy = document.createElement("canvas");
  copy.width = source.width;
  copy.height = source.height;
  const context = copy.getContext("2d");
  if (!context) return Promise.resolve(null);
  context.fillStyle = getComputedStyle(source).getPropertyValue("--surface").trim();
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(source, 0, 0);
  return new Promise((resolve) => copy.toBlob(resolve, "image/png"));
}
