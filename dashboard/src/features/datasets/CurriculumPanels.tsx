/** The schedules over epochs, one above the other on the same axis; the one the dataset names comes first. */
import { useMemo, useRef } from "react";
import { type CurriculumOut, fromWire, type ScheduleOut } from "@/api/types";
import { formatFixed, formatPercent } from "@/lib/format";
import { useTheme } from "@/lib/theme";
import { Chip, Panel } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { constantFrom, SCHEDULE_NAMES, sharesOf, VARIANTS } from "./curriculum";
import { ShareChart } from "./ShareChart";
import { VariantLegend } from "./VariantStrip";

interface CurriculumPanelsProps {
  curriculum: CurriculumOut | null;
  error: string | null;
  epoch: number;
  onEpoch: (epoch: number) => void;
}

export default function CurriculumPanels({ curriculum, error, epoch, onEpoch }: CurriculumPanelsProps) {
  if (curriculum === null)
    return (
      <Panel
        title="Curriculum"
        className="h-full"
        state={
          error === null
            ? { kind: "loading" }
            : { kind: "error", title: "Could not compute the schedules", text: error }
        }
      />
    );
  return (
    <div className="grid h-full min-h-0 auto-rows-fr gap-2">
      {curriculum.schedules.map((schedule) => (
        <SchedulePanel
          key={schedule.name}
          schedule={schedule}
          epoch={Math.min(epoch, curriculum.epochs - 1)}
          onEpoch={onEpoch}
        />
      ))}
    </div>
  );
}

interface SchedulePanelProps {
  schedule: ScheduleOut;
  epoch: number;
  onEpoch: (epoch: number) => void;
}

function SchedulePanel({ schedule, epoch, onEpoch }: SchedulePanelProps) {
  const container = useRef<HTMLParagraphElement>(null);
  const theme = useTheme();
  const shares = useMemo(() => sharesOf(schedule), [schedule]);
  const name = SCHEDULE_NAMES[schedule.name] ?? schedule.name;
  const files = exportItems(
    `curriculum-${schedule.name}`,
    () => container.current,
    () => columnsOf(schedule, shares),
    () => schedule,
  );
  return (
    <Panel
      title={name}
      fact={`constant from epoch ${constantFrom(shares) + 1}`}
      tools={
        <>
          {schedule.own && <Chip tone="accent">This dataset's</Chip>}
          <VariantLegend />
          <ExportMenu subject={name} items={files} />
        </>
      }
    >
      <ShareChart
        label={`${name}: shares of the four variants over epochs`}
        {...{ shares, epoch, onEpoch, theme }}
      />
      <p ref={container} className="truncate px-3 pb-2 text-t2" data-figure={schedule.name}>
        {readout(schedule, shares, epoch)}
      </p>
    </Panel>
  );
}

/** What is drawn at the epoch that is read, an index; people count from 1. */
function readout(schedule: ScheduleOut, shares: readonly number[][], epoch: number): string {
  const row = VARIANTS.map((name, at) => `${name} ${formatPercent(shares[epoch]?.[at], 1)}`).join(", ");
  const gate = schedule.largest_distance?.[epoch];
  if (gate === undefined) return `Epoch ${epoch + 1}: ${row}`;
  const far = formatPercent(fromWire(schedule.beyond?.[epoch]), 0);
  return `Epoch ${epoch + 1}: ${row} · gate ${formatFixed(fromWire(gate), 2)}, ${far} of the pairs beyond`;
}

function columnsOf({ largest_distance, beyond }: ScheduleOut, shares: readonly number[][]) {
  return [
    { name: "epoch", cells: shares.map((_, epoch) => epoch + 1) },
    ...VARIANTS.map((name, at) => ({ name, cells: shares.map((row) => row[at] ?? null) })),
    ...(largest_distance
      ? [
          { name: "largest_distance", cells: largest_distance.map((value) => fromWire(value)) },
          { name: "beyond", cells: (beyond ?? []).map((value) => fromWire(value)) },
        ]
      : []),
  ];
}
