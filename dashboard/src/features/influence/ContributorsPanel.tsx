/** Who moved the selected sequence: signed bars, advantages and texts, and two texts side by side. */
import { useMemo, useRef } from "react";
import { fromWire, type InfluenceUpdateSequence } from "@/api/types";
import { signed } from "@/charts/colors/signed";
import { css } from "@/charts/colors/viridis";
import { formatCount, formatFixed, formatValue } from "@/lib/format";
import { useTheme } from "@/lib/theme";
import { useUrlChoice } from "@/lib/urlState";
import { Panel, rowClass, Segmented } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { formatNats } from "./formatNats";
import { actualOf, type Contribution, type InfluenceData } from "./influenceData";
import { promptNames } from "./prompts";

interface ContributorsPanelProps {
  influence: InfluenceData;
  row: number;
  contributions: readonly Contribution[];
  /** Id of the contributor whose text is shown beside the list. */
  by: string | null;
  onBy: (sequenceId: string) => void;
}

/** Rows drawn at most; the file has all. */
const MOST = 200;
const SIGNS = [
  { value: "both", label: "Both" },
  { value: "up", label: "Up" },
  { value: "down", label: "Down" },
] as const;

export default function ContributorsPanel({
  influence,
  row,
  contributions,
  by,
  onBy,
}: ContributorsPanelProps) {
  const container = useRef<HTMLDivElement>(null);
  const [sign, setSign] = useUrlChoice("sign", ["both", "up", "down"]);
  const evaluated = influence.batch.sequences[row];
  const shown = useMemo(
    () => contributions.filter(({ value }) => sign === "both" || (sign === "up" ? value > 0 : value < 0)),
    [contributions, sign],
  );
  const names = useMemo(() => promptNames(influence), [influence]);
  if (evaluated === undefined)
    return (
      <Panel
        title="What changed it"
        className="h-full"
        state={{ kind: "unavailable", text: "Select a row." }}
      />
    );
  const chosen = shown.find(({ sequence }) => sequence.sequence_id === by) ?? shown[0];
  const checked = actualOf(influence.result, evaluated.sequence_id);
  const name = `contributors-${evaluated.sequence_id}`;
  const files = exportItems(
    name,
    () => container.current,
    () => columnsOf(contributions),
    () => ({ ...evaluated, contributors: contributions.map(plain) }),
  );
  const fact = (
    <>
      Δ log π <span className="font-medium text-text">{formatNats(fromWire(evaluated.delta.total))}</span>{" "}
      predicted
      {checked && <>, {formatNats(checked.actual)} actual</>}
    </>
  );
  const tools = (
    <>
      <Segmented label="Direction" value={sign} choices={SIGNS} onChange={setSign} />
      <ExportMenu subject="contributors" items={files} />
    </>
  );
  return (
    <Panel title={`What changed ${evaluated.sequence_id}`} fact={fact} tools={tools} className="h-full">
      <div ref={container} className="flex min-h-0 flex-1 flex-col">
        <div className="mx-3 grid shrink-0 grid-cols-2 gap-2">
          <Words id={evaluated.sequence_id} sequence={evaluated} />
          {chosen && <Words id={chosen.sequence.sequence_id} sequence={chosen.sequence} />}
        </div>
        <div className="mt-1 min-h-0 flex-1 overflow-auto">
          <Contributors
            {...{ shown: shown.slice(0, MOST), names, onBy }}
            chosen={chosen?.sequence.sequence_id ?? null}
          />
          {shown.length > MOST && (
            <p className="px-3 py-1 text-t3">
              {formatCount(MOST)} of {formatCount(shown.length)} are listed; the CSV has all.
            </p>
          )}
          {shown.length === 0 && (
            <p className="px-3 py-2 text-t3">No sequence changed it in this direction.</p>
          )}
        </div>
      </div>
    </Panel>
  );
}

type Texts = Pick<InfluenceUpdateSequence, "prompt" | "response" | "reward">;

/** A prompt and its response, whole; the response coloured by its reward. */
function Words({ id, sequence }: { id: string; sequence: Texts }) {
  return (
    <div className="min-w-0 rounded-control bg-s2 px-2.5 py-1.5">
      <p className="text-label text-t3">
        <span className="font-mono">{id}</span>
        {sequence.reward !== null && <> · reward {formatValue(fromWire(sequence.reward), 3)}</>}
      </p>
      <p className="max-h-12 overflow-auto break-words whitespace-pre-wrap">
        <span className="text-t3">{sequence.prompt}</span>
        <span className={toneOf(sequence)}>{sequence.response}</span>
      </p>
    </div>
  );
}

function toneOf({ reward }: Pick<Texts, "reward">): string {
  const value = fromWire(reward);
  return value === null ? "text-text" : value > 0 ? "text-ok" : "text-bad";
}

interface ContributorsProps {
  shown: readonly Contribution[];
  names: ReadonlyMap<string, string>;
  chosen: string | null;
  onBy: (sequenceId: string) => void;
}

function Contributors({ shown, names, chosen, onBy }: ContributorsProps) {
  const largest = Math.max(...shown.map(({ value }) => Math.abs(value)), 1e-300);
  const head = "px-2 font-normal text-label text-t3";
  return (
    <table className="w-full table-fixed border-collapse">
      <thead className="sticky top-0 z-10 bg-surface">
        <tr className="h-6 text-left">
          <th scope="col" className={`${head} w-28 pl-3`}>
            moves down │ up
          </th>
          <th scope="col" className={`${head} w-20 text-right`}>
            Contribution
          </th>
          <th scope="col" className={`${head} w-24`}>
            Sequence
          </th>
          <th scope="col" className={`${head} w-14 text-right`}>
            Adv.
          </th>
          <th scope="col" className={`${head} w-14 text-right`}>
            Cosine
          </th>
          <th scope="col" className={head}>
            Text
          </th>
        </tr>
      </thead>
      <tbody>
        {shown.map(({ sequence, value, cosine }) => (
          <tr
            key={sequence.sequence_id}
            onClick={() => onBy(sequence.sequence_id)}
            className={rowClass({ selected: sequence.sequence_id === chosen })}
          >
            <td className="pr-2 pl-3">
              <SignedBar share={value / largest} />
            </td>
            <td className="px-2 text-right">{formatNats(value)}</td>
            <td className="px-2">
              <button
                type="button"
                aria-pressed={sequence.sequence_id === chosen}
                onClick={() => onBy(sequence.sequence_id)}
                className="h-6 rounded-chip font-mono hover:text-accent"
              >
                {sequence.sequence_id}
              </button>
            </td>
            <td className="px-2 text-right">{formatFixed(fromWire(sequence.advantage), 2)}</td>
            <td className="px-2 text-right">{formatFixed(cosine, 2)}</td>
            <td className="px-2">
              <OneLine sequence={sequence} name={names.get(sequence.prompt) ?? sequence.prompt} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Name of the prompt and response in one line: the middle gives way, the answer at the end is never cut. */
function OneLine({ sequence, name }: { sequence: Texts; name: string }) {
  const answer = sequence.response.trim().slice(-24);
  const prompt = name === sequence.prompt.trim() ? sequence.prompt : `${name} `;
  const before = `${prompt}${sequence.response.trim().slice(0, -24)}`.replaceAll(/\s+/g, " ");
  return (
    <span className="flex min-w-0 whitespace-pre" title={`${sequence.prompt}${sequence.response}`}>
      <span className="min-w-0 truncate text-t3">{before}</span>
      <span className={`shrink-0 ${toneOf(sequence)}`}>{answer.replaceAll(/\s+/g, " ")}</span>
    </span>
  );
}

/** A bar from the middle: to the right for up, to the left for down. */
function SignedBar({ share }: { share: number }) {
  const theme = useTheme();
  const width = `${Math.abs(share) * 50}%`;
  return (
    <span className="relative block h-3 w-full" aria-hidden="true">
      <span className="absolute top-0 bottom-0 left-1/2 w-px bg-line2" />
      <span
        className="absolute top-0.5 h-2 rounded-mark"
        style={{
          width,
          background: css(signed(share > 0 ? 0.55 : -0.55, theme)),
          ...(share > 0 ? { left: "50%" } : { right: "50%" }),
        }}
      />
    </span>
  );
}

function plain({ sequence, value, cosine }: Contribution) {
  return { ...sequence, contribution: value, cosine };
}

function columnsOf(contributions: readonly Contribution[]) {
  const of = <T extends string | number | null>(pick: (one: Contribution) => T) => contributions.map(pick);
  return [
    { name: "sequence_id", cells: of(({ sequence }) => sequence.sequence_id) },
    { name: "contribution", cells: of(({ value }) => value) },
    { name: "cosine", cells: of(({ cosine }) => cosine) },
    { name: "advantage", cells: of(({ sequence }) => fromWire(sequence.advantage)) },
    { name: "reward", cells: of(({ sequence }) => fromWire(sequence.reward)) },
    { name: "prompt", cells: of(({ sequence }) => sequence.prompt) },
    { name: "response", cells: of(({ sequence }) => sequence.response) },
  ];
}
