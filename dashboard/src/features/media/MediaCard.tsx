/** All of one kind that was logged under one name: the item of the chosen step, or all histograms. */

import { api, runPath } from "@/api/client";
import { readMediaPicture, useMediaGroup } from "@/api/media";
import type { MediaContent, MediaGroup, MediaGroupDetail, MediaItem } from "@/api/types";
import type { Theme } from "@/charts/colors/viridis";
import { downloadBlob, downloadText } from "@/lib/download";
import { formatCount } from "@/lib/format";
import { csvOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { ContentView } from "./ContentView";
import { HistogramView } from "./HistogramView";
import { brokenOf, indexAt, itemText, keptText, keptTitle, pictureText } from "./media";
import { PictureView } from "./PictureView";
import { tableOf } from "./tableOf";

interface MediaCardProps {
  runId: string;
  group: MediaGroup;
  /** The chosen step; null for the newest. */
  step: number | null;
  theme: Theme;
}

/** Wider ones take two columns of the page. */
const WIDE_PX = 360;
const WIDE_COLUMNS = 5;

export function MediaCard({ runId, group, step, theme }: MediaCardProps) {
  const version = `${group.logged} ${group.numbers.length} ${group.numbers.at(-1)}`;
  const { data } = useMediaGroup(runId, group.id, version);
  const index = indexAt(group.steps, step);
  const number = index === null ? undefined : group.numbers[index];
  const item = data?.items.find((one) => one.number === number);
  const broken = item ? brokenOf(item) : 0;
  return (
    <section
      aria-label={`${group.key}, ${group.kind}`}
      className={`flex min-w-0 flex-col rounded-control bg-surface pb-3 ${isWide(data) ? "col-span-2 max-[899px]:col-span-1" : ""}`}
    >
      <header className="flex h-9 shrink-0 items-center gap-2 px-3">
        <h3 className="min-w-0 truncate font-semibold" title={group.key}>
          {group.key}
        </h3>
        {item && <span className="text-t2">step {formatCount(item.step)}</span>}
        <div data-tools="" className="ml-auto flex shrink-0 items-center gap-2">
          <span className="text-t3" title={keptTitle(group)}>
            {keptText(group)}
          </span>
          {data && <Export runId={runId} group={data} item={item} />}
        </div>
      </header>
      <div className="flex min-w-0 flex-col gap-1.5 px-3">
        {data && item && <Shown {...{ runId, data, item, theme }} index={index ?? 0} />}
        {index === null && <p className="text-t3">Logged first at step {formatCount(group.steps[0])}.</p>}
        {item && (
          <p className="flex gap-2 text-t3">
            <span className="truncate">{item.picture ? pictureText(item.picture) : itemText(item)}</span>
            {broken > 0 && (
              <span className="flex shrink-0 items-center gap-1 font-medium text-bad">
                <span className="size-2 rounded-mark bg-nan" />
                {formatCount(broken)} NaN or infinite
              </span>
            )}
          </p>
        )}
      </div>
    </section>
  );
}

interface ShownProps {
  runId: string;
  data: MediaGroupDetail;
  item: MediaItem;
  index: number;
  theme: Theme;
}

function Shown({ runId, data, item, index, theme }: ShownProps) {
  const { picture, histogram, number } = item;
  const label = `${data.key} at step ${formatCount(item.step)}`;
  const place = { runId, groupId: data.id, number, label };
  if (picture) return <PictureView {...place} picture={picture} />;
  if (histogram) return <HistogramView name={data.key} items={data.items} index={index} theme={theme} />;
  return <ContentView {...place} />;
}

function isWide(group: MediaGroupDetail | undefined): boolean {
  const last = group?.items.at(-1);
  return (last?.picture?.width ?? 0) > WIDE_PX || (last?.table?.columns ?? 0) > WIDE_COLUMNS;
}

interface ExportProps {
  runId: string;
  group: MediaGroupDetail;
  item: MediaItem | undefined;
}

/** What is shown, as a file. */
function Export({ runId, group, item }: ExportProps) {
  const name = `${group.key.replaceAll(/[^\w.-]+/g, "-")}-${item?.step ?? ""}`;
  const save = {
    image: ["PNG, every pixel", savePicture],
    text: ["Text", saveContent],
    table: ["CSV, every row", saveContent],
    histogram: ["CSV, all steps", saveHistograms],
  } as const;
  const [label, action] = save[group.kind];
  return (
    <ExportMenu
      subject={group.key}
      disabledReason={item === undefined ? "Nothing was logged at this step" : null}
      items={[{ label, onSelect: () => item && void action(runId, group, item, name) }]}
    />
  );
}

async function savePicture(runId: string, group: MediaGroupDetail, item: MediaItem, name: string) {
  downloadBlob(`${name}.png`, await readMediaPicture(runId, group.id, item.number));
}

async function saveContent(runId: string, group: MediaGroupDetail, item: MediaItem, name: string) {
  const path = runPath(runId, `/media/${encodeURIComponent(group.id)}/${item.number}`);
  const content: MediaContent = await api.get<"/runs/{run_id}/media/{group_id}/{number}">(path);
  if (content.text !== null) downloadText(`${name}.txt`, content.text, "text/plain");
  else downloadText(`${name}.csv`, csvOf(tableOf(content)), "text/csv");
}

function saveHistograms(_runId: string, group: MediaGroupDetail, _item: MediaItem, name: string) {
  const bins = group.items.flatMap(({ step, histogram }) => {
    if (histogram === null) return [];
    const { low, high, counts } = histogram;
    const width = (high - low) / counts.length;
    return counts.map((count, bin) => ({
      step,
      from: low + bin * width,
      to: low + (bin + 1) * width,
      count,
    }));
  });
  const columns = (["step", "from", "to", "count"] as const).map((column) => ({
    name: column,
    cells: bins.map((bin) => bin[column]),
  }));
  downloadText(`${name}.csv`, csvOf(columns), "text/csv");
}
