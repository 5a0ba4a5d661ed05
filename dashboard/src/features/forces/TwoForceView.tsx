/** Two forces on the rows of any tensor: all of them as points, one of them in its parts. */
import { type ReactNode, useMemo, useState } from "react";
import type { Theme } from "@/charts/colors/viridis";
import { Scatter } from "@/charts/points/Scatter";
import { useSize } from "@/charts/useSize";
import { formatFixed, formatValue } from "@/lib/format";
import { capitalised, type StatusRule, statusOf } from "@/lib/rowStatus";
import type { ForceDetail, Forces } from "@/live/forces";
import { Button, Segmented, StatusWord } from "@/ui";
import { RowTile } from "./RowTile";
import { pictureOf, squareOf } from "./rowImageShape";

/** What the two forces are called. */
export interface ForceWords {
  first: string;
  second: string;
}

export interface TwoForceProps {
  forces: Forces;
  words: ForceWords;
  /** 0…1 for each row, or one plain colour. */
  colour: ArrayLike<number> | null;
  detail: ForceDetail | null;
  detailError: string | null;
  selected: number | null;
  onSelect: (feature: number) => void;
  watched: readonly number[];
  onWatch: ((feature: number) => void) | null;
  /** How a row is judged by a metric, where a hint says so. */
  rule: StatusRule | null;
  /** Height and width of the image of a row, where a hint says so. */
  shape: readonly number[] | null;
  onHover: (feature: number | null) => void;
  theme: Theme;
}

export function TwoForceView(props: TwoForceProps) {
  const { forces, words, selected, onSelect, watched, onHover, theme } = props;
  const [container, size] = useSize<HTMLDivElement>();
  const column = (name: string) => forces.columns.get(name) ?? EMPTY;
  const [first, second] = [column("grad_magnitude"), column("som_magnitude")];
  // Where one force is the same everywhere, both against each other would be a line: the other is drawn by feature.
  const alone = useMemo(
    () => (isSame(second) ? ("first" as const) : isSame(first) ? ("second" as const) : null),
    [first, second],
  );
  const [across, up] = alone === "second" ? [second, second] : [first, alone === null ? second : first];
  const spread = useMemo(() => spansDecades(across), [across]);
  const ids = useMemo(() => Float64Array.from({ length: first.length }, (_, index) => index), [first.length]);
  const { detail, shape } = props;
  const choice =
    detail !== null && pictureOf(detail.rowShape, shape) === null && squareOf(detail.weight.length) !== null;
  // Two images in a row and two rows of them, a choice below where there is one; what stays is the scatter's.
  const tile = Math.max(
    56,
    Math.min(Math.floor((size.height - (choice ? 122 : 92)) / 2), Math.floor(size.width * 0.2)),
  );
  const detailWidth = 2 * tile + 12;
  const narrow = size.width < 460;
  return (
    <div ref={container} className={`flex min-h-0 flex-1 gap-4 px-3 pb-1 ${narrow ? "flex-col" : ""}`}>
      <Scatter
        label={`${alone === null ? `${words.second} against ${words.first}` : words[alone]} magnitude of ${first.length} rows.`}
        x={alone === null ? across : ids}
        y={up}
        xLabel={alone === null ? `${words.first} magnitude` : "Row"}
        yLabel={`${words[alone ?? "second"]} magnitude`}
        logX={alone === null && spread}
        logY={alone !== null && spread}
        colour={props.colour}
        nameOf={String}
        named={watched}
        selected={selected !== null && selected < first.length ? selected : null}
        onSelect={onSelect}
        onHover={onHover}
        theme={theme}
      />
      {size.height > 0 && (
        <div className="flex shrink-0 flex-col" style={{ width: detailWidth }}>
          <Detail {...props} tile={tile} />
        </div>
      )}
    </div>
  );
}

const EMPTY = new Float64Array();

/** Whether no value differs from the others by more than rounding. */
export function isSame(values: Float64Array): boolean {
  const first = values[0] ?? 0;
  return values.every((value) => Math.abs(value - first) <= 1e-6 * Math.abs(first));
}

/** A log axis where positive values lie far apart, and where there is any. */
export function spansDecades(values: ArrayLike<number>): boolean {
  let [low, high] = [Number.POSITIVE_INFINITY, 0];
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index] as number;
    if (value > 0 && Number.isFinite(value)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return high / low > 30;
}

function Detail(props: TwoForceProps & { tile: number }) {
  const { forces, words, detail, detailError, selected, watched, onWatch, rule, shape, tile, theme } = props;
  const [asBars, setAsBars] = useState<boolean | null>(null);
  if (selected === null)
    return <Hint>Select a point to see how this step changed its weights. Arrows move between points.</Hint>;
  const judged = rule === null ? null : (forces.columns.get(rule.field)?.[selected] ?? null);
  const status = rule === null ? null : statusOf(rule, judged);
  const head = (
    <div className="flex h-6 items-center gap-2">
      <span className="font-semibold whitespace-nowrap">Row {selected}</span>
      {status && <StatusWord tone={status.tone} word={capitalised(status.word)} />}
      {onWatch && (
        <Button
          small
          look="ghost"
          icon="eye"
          className="-mr-2 ml-auto text-t2!"
          disabledReason={watched.includes(selected) ? "Already watched" : null}
          tooltip="Watch this row over the steps"
          onClick={() => onWatch(selected)}
        >
          Watch
        </Button>
      )}
    </div>
  );
  if (detail === null || detail.feature !== selected)
    return (
      <>
        {head}
        {detailError && <Hint>{detailError}</Hint>}
      </>
    );
  const hinted = pictureOf(detail.rowShape, shape);
  const square = hinted ?? squareOf(detail.weight.length);
  // Without a hint that rows are images they are drawn as bars, until the user switches.
  const picture = (asBars ?? hinted === null) ? null : square;
  const tiles = { picture, room: tile, theme };
  return (
    <>
      {head}
      <div className="grid grid-cols-2 gap-x-3" data-feature={detail.feature} data-step={detail.step}>
        <RowTile title="Weight" values={detail.weight} {...tiles} />
        <RowTile title={words.first} values={detail.gradDelta} {...tiles} />
        <RowTile title={words.second} values={detail.somDelta} {...tiles} />
        <RowTile title="Combined" values={detail.combined} {...tiles} />
      </div>
      <Cosine detail={detail} words={words} verdict={forces.verdicts[selected] ?? null} />
      {square && hinted === null && (
        <div className="mt-1">
          <Segmented
            label="How a row is drawn"
            value={picture === null ? "bars" : "image"}
            choices={[
              { value: "bars", label: "Bars" },
              { value: "image", label: "Image" },
            ]}
            onChange={(choice) => setAsBars(choice === "bars")}
          />
        </div>
      )}
    </>
  );
}

function Hint({ children }: { children: ReactNode }) {
  return <p className="py-2 text-t3">{children}</p>;
}

/** The verdict on two forces as the page says it. */
export function verdictWord(verdict: string | null): string {
  return verdict === "fight" ? "oppose" : (verdict ?? "");
}

/** Minus one to one with the middle marked, and the word beside the number. */
function Cosine({
  detail,
  words,
  verdict,
}: {
  detail: ForceDetail;
  words: ForceWords;
  verdict: string | null;
}) {
  const { cosine } = detail;
  const half = Number.isFinite(cosine) ? Math.abs(cosine) * 50 : 0;
  const tone = verdict === "fight" ? "bg-series-1" : verdict === "agree" ? "bg-series-2" : "bg-line3";
  return (
    <div className="mt-1">
      <p className="flex h-5 items-center justify-between gap-2 whitespace-nowrap">
        <span className="truncate text-t2">
          cos({words.first}, {words.second})
        </span>
        <span data-cosine={Number.isFinite(cosine) ? cosine : "NaN"} title={formatValue(cosine, 6)}>
          <span className="font-semibold">{formatFixed(cosine, 2)}</span> {verdictWord(verdict)}
        </span>
      </p>
      <div className="relative h-1 rounded-full bg-s3">
        <div
          className={`absolute inset-y-0 ${tone}`}
          style={{ left: cosine < 0 ? `${50 - half}%` : "50%", width: `${half}%` }}
        />
        <div className="absolute -inset-y-0.5 left-1/2 w-px bg-t3" />
      </div>
    </div>
  );
}
