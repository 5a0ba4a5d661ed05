/** Figures of a run by their file names, and which of their families failed. */
import type { EventRecord } from "@/api/runs";
import type { RunFile } from "@/api/types";
import { plural } from "@/lib/format";

export interface RunFigure {
  file: RunFile;
  /** What it shows, such as "losses"; the file's name if the loop saved it by itself. */
  family: string;
  /** The epoch it was drawn after; null for a figure of the loop's own. */
  epoch: number | null;
}

const PICTURE = /\.(png|svg|jpe?g)$/i;
const DRAWN = /^figures\/([A-Za-z0-9_]+)-on_[a-z_]+-e(\d+)\.[a-z]+$/;

/** The pictures among the files of a run, newest first. */
export function figuresOf(files: readonly RunFile[]): RunFigure[] {
  return files
    .filter(({ kind, path }) => kind === "figure" && PICTURE.test(path))
    .sort((a, b) => b.modified_at - a.modified_at)
    .map((file) => {
      const [, family, epoch] = DRAWN.exec(file.path) ?? [];
      return family === undefined
        ? { file, family: nameOf(file), epoch: null }
        : { file, family, epoch: Number(epoch) };
    });
}

/** The newest figure of each family, in the order of their names. */
export function newestOf(figures: readonly RunFigure[]): RunFigure[] {
  const newest = new Map<string, RunFigure>();
  for (const figure of figures) if (!newest.has(figure.family)) newest.set(figure.family, figure);
  return [...newest.values()].sort((a, b) => a.family.localeCompare(b.family));
}

/** The figures of one family, oldest first: what the arrows walk through. */
export const seriesOf = (figures: readonly RunFigure[], family: string) =>
  figures.filter((figure) => figure.family === family).reverse();

export const nameOf = ({ path }: RunFile) => path.split("/").at(-1) ?? path;

/** "losses after epoch 4", or the name of a figure of the loop's own. */
export const titleOf = ({ family, epoch }: RunFigure) =>
  epoch === null ? family : `${family} after epoch ${epoch}`;

export interface FigureFailures {
  /** The last record that was read. */
  seq: number;
  /** By family, how often it failed, and the first error. */
  families: Readonly<Record<string, { times: number; error: string }>>;
}

export const NO_FAILURES: FigureFailures = { seq: 0, families: {} };

/** What further records say of families that failed; each names the total so far. */
export function withFailures(known: FigureFailures, events: readonly EventRecord[]): FigureFailures {
  const families = { ...known.families };
  for (const { kind, family, times, error } of events) {
    if (kind !== "figure_failed" || typeof family !== "string") continue;
    families[family] = {
      times: typeof times === "number" ? times : 1,
      error: typeof error === "string" ? error : (families[family]?.error ?? ""),
    };
  }
  return { seq: events.at(-1)?.seq ?? known.seq, families };
}

/** "Figures of recon failed once: no data." */
export const failureText = (family: string, { times, error }: { times: number; error: string }) =>
  `Figures of ${family} failed${times > 1 ? `, ${plural(times, "time")}` : ""}: ${error}`;
