/** Hands the browser a file to save; nothing leaves the machine. */
export function downloadBlob(name: string, blob: Blob): void {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The click only starts the saving; the address must outlive it.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export function downloadText(
  name: string,
  text: string,
  type: "text/csv" | "application/json" | "text/plain",
): void {
  downloadBlob(name, new Blob([text], { type: `${type};charset=utf-8` }));
}
