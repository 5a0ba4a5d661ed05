/** Server-sent events out of chunks of text. EventSource cannot send a bearer header, so the page reads them itself. */

export interface ServerEvent {
  /** Last id so far; messages without one of their own keep it. */
  id: string;
  data: string;
}

/** Collects lines until an empty one ends the event, wherever the chunks were cut. */
export class SseParser {
  private rest = "";
  private data: string[] = [];
  private id = "";
  private skipNewline = false;

  push(chunk: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    let text = this.rest + chunk;
    // A carriage return at the very end of the last chunk ended a line already; its newline must not end another.
    if (this.skipNewline && text.startsWith("\n")) text = text.slice(1);
    if (text !== "") this.skipNewline = text.endsWith("\r");
    const lines = text.split(/\r\n|\r|\n/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) this.line(line.replace(/^\uFEFF/, ""), events);
    return events;
  }

  private line(line: string, events: ServerEvent[]): void {
    if (line === "") {
      if (this.data.length > 0) events.push({ id: this.id, data: this.data.join("\n") });
      this.data = [];
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    else if (field === "id" && !value.includes("\0")) this.id = value;
  }
}
