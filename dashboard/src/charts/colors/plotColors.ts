/** Colours of charts, read from the theme's CSS variables where the chart stands. */

export interface PlotColours {
  surface: string;
  grid: string;
  t3: string;
  text: string;
  line: string;
  /** The raw line, faint beside the smoothed one. */
  thin: string;
  band: string;
  warn: string;
  warnText: string;
  bad: string;
}

/** A colour with some of the background let through. */
export function faded(colour: string, percent: number): string {
  return `color-mix(in srgb, ${colour} ${percent}%, transparent)`;
}

export function plotColours(element: Element): PlotColours {
  const style = getComputedStyle(element);
  const read = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const line = read("series-1");
  return {
    surface: read("surface"),
    grid: read("grid"),
    t3: read("t3"),
    text: read("text"),
    line,
    thin: faded(line, 70),
    band: faded(line, 10),
    warn: read("warn-mark"),
    warnText: read("warn"),
    bad: read("bad-mark"),
  };
}
