/** The figures of a run: the newest of each family, or all; they appear while it trains. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { readEvents, readRunFile, useRunFiles } from "@/api/runs";
import { formatBytes, plural } from "@/lib/format";
import { Button, Dialog, Panel, type PanelState, panelState, Segmented } from "@/ui";
import {
  type FigureFailures,
  failureText,
  figuresOf,
  NO_FAILURES,
  newestOf,
  type RunFigure,
  seriesOf,
  titleOf,
  withFailures,
} from "./figures";

interface FiguresPanelProps {
  runId: string;
  live: boolean;
}

/** More pictures than anybody looks at; the others are among the files. */
const MAX_SHOWN = 60;
const POLL_MS = 3_000;

export default function FiguresPanel({ runId, live }: FiguresPanelProps) {
  const { data, error, refetch } = useRunFiles(runId, live, POLL_MS);
  const failures = useFailures(runId, live);
  const [which, setWhich] = useState<"newest" | "all">("newest");
  const [opened, setOpened] = useState<RunFigure | null>(null);
  // The last figures are drawn when the training ends; the list is not polled any more then.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the end of the run is what makes the list old
  useEffect(() => void refetch(), [live, refetch]);
  const all = figuresOf(data?.files ?? []);
  const shown = (which === "newest" ? newestOf(all) : all).slice(0, MAX_SHOWN);
  const fact = shown.length < all.length ? `${shown.length} of ${all.length}` : plural(all.length, "figure");
  return (
    <Panel
      title="Figures"
      fact={data ? fact : undefined}
      className="h-full"
      bodyClassName="overflow-auto"
      tools={
        <Segmented
          label="Which figures"
          value={which}
          choices={[
            { value: "newest", label: "Newest" },
            { value: "all", label: "All" },
          ]}
          onChange={setWhich}
        />
      }
      state={stateOf(
        data ? all.length + Object.keys(failures.families).length : null,
        error?.message ?? null,
        live ? EMPTY_LIVE : emptyEnded(runId),
      )}
    >
      {Object.entries(failures.families).map(([family, failed]) => (
        <p key={family} role="status" className="px-3 pt-1 text-bad">
          {failureText(family, failed)} The training is not affected.
        </p>
      ))}
      <ul className="grid grid-cols-[repeat(auto-fill,minmax(280px,1fr))] gap-3 p-3 pt-1">
        {shown.map((figure) => (
          <li key={which === "newest" ? figure.family : figure.file.id}>
            <button
              type="button"
              onClick={() => setOpened(figure)}
              className="flex w-full flex-col gap-1 rounded-control p-1 text-left hover:bg-s2"
            >
              <Picture runId={runId} figure={figure} className="h-48 w-full" />
              <span className="w-full truncate text-label text-t2" title={figure.file.path}>
                {titleOf(figure)}
              </span>
            </button>
          </li>
        ))}
      </ul>
      {opened && (
        <FigureDialog
          runId={runId}
          figure={opened}
          series={seriesOf(all, opened.family)}
          onOpen={setOpened}
          onClose={() => setOpened(null)}
        />
      )}
    </Panel>
  );
}

interface FigureDialogProps {
  runId: string;
  figure: RunFigure;
  /** The figures of its family, oldest first. */
  series: readonly RunFigure[];
  onOpen: (figure: RunFigure) => void;
  onClose: () => void;
}

/** One figure in full; the arrows walk through the epochs. */
function FigureDialog({ runId, figure, series, onOpen, onClose }: FigureDialogProps) {
  const index = series.findIndex(({ file }) => file.id === figure.file.id);
  const [earlier, later] = [series[index - 1], series[index + 1]];
  const open = (other: RunFigure | undefined) => other && onOpen(other);
  return (
    <Dialog title={titleOf(figure)} onClose={onClose} className="p-4">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the keys are those of the two buttons in it */}
      <div
        onKeyDown={(event) => {
          if (event.key === "ArrowLeft") open(earlier);
          if (event.key === "ArrowRight") open(later);
        }}
      >
        <Picture runId={runId} figure={figure} className="mt-2 max-h-[75vh] max-w-[85vw]" />
        <div className="mt-2 flex items-center gap-2">
          <Button
            data-autofocus
            small
            keys="←"
            disabledReason={earlier ? null : "This is the first figure"}
            onClick={() => open(earlier)}
          >
            Earlier
          </Button>
          <Button
            small
            keys="→"
            disabledReason={later ? null : "This is the newest figure"}
            onClick={() => open(later)}
          >
            Later
          </Button>
          <span className="ml-auto text-t3">
            {index + 1} of {series.length} · {formatBytes(figure.file.bytes)}
          </span>
        </div>
      </div>
    </Dialog>
  );
}

interface PictureProps {
  runId: string;
  figure: RunFigure;
  className: string;
}

/** A picture of the server as an address of this page's own; an image element alone would carry no token. */
function Picture({ runId, figure, className }: PictureProps) {
  const [address, setAddress] = useState<string | null>(null);
  const { id, modified_at } = figure.file;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a figure drawn anew is another picture under the same id
  useEffect(() => {
    const closing = new AbortController();
    let objectUrl: string | null = null;
    readRunFile(runId, id, closing.signal)
      .then((blob) => {
        objectUrl = URL.createObjectURL(blob);
        setAddress(objectUrl);
      })
      // Its place stays empty; the file list says whether it is still there.
      .catch(() => setAddress(null));
    return () => {
      closing.abort();
      if (objectUrl !== null) URL.revokeObjectURL(objectUrl);
    };
  }, [runId, id, modified_at]);
  if (address === null) return <span className={`block rounded-mark bg-s2 ${className}`} />;
  return (
    <img
      src={address}
      alt={titleOf(figure)}
      className={`rounded-mark bg-[#fff] object-contain ${className}`}
    />
  );
}

/** Which families failed; each answer reads only what is new in the facts. */
function useFailures(runId: string, live: boolean): FigureFailures {
  const queries = useQueryClient();
  const queryKey = ["figure-failures", runId];
  const { data } = useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      const known = queries.getQueryData<FigureFailures>(queryKey) ?? NO_FAILURES;
      const start = known.seq === 0 ? [] : [{ seq: known.seq, moment: "" }];
      return withFailures(known, await readEvents(runId, start, signal));
    },
    refetchInterval: live ? POLL_MS : false,
    refetchOnMount: "always",
  });
  return data ?? NO_FAILURES;
}

const EMPTY_LIVE: PanelState = {
  kind: "empty",
  title: "No figures yet",
  text: "A loop that draws figures, or saves its own to figures/ in the run directory, adds them at the end of an epoch.",
};
const emptyEnded = (runId: string): PanelState => ({
  kind: "empty",
  title: "No figures",
  text: `Draw them from the facts with: midstep runs figures ${runId}`,
});

const stateOf = (count: number | null, error: string | null, empty: PanelState): PanelState =>
  panelState(
    { data: count, error },
    { what: "the figures", empty: (figures) => (figures > 0 ? null : empty) },
  );
