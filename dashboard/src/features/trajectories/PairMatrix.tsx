/** How alike the watched rows are now; a click on a cell shows the pair over the steps. */

import { signed } from "@/charts/colors/signed";
import { css, type Theme } from "@/charts/colors/viridis";
import { formatFixed } from "@/lib/format";
import type { SourceTracks } from "@/live/trajectories";
import { cosineNow, pairName } from "./tracks";

interface PairMatrixProps {
  tracks: SourceTracks;
  colourOf: (id: number) => string;
  chosen: string | null;
  onChoose: (pair: string | null) => void;
  theme: Theme;
}

/** More than so many would be too small to read. */
const MOST = 8;

export function PairMatrix({ tracks, colourOf, chosen, onChoose, theme }: PairMatrixProps) {
  const ids = tracks.watched.slice(0, MOST);
  if (ids.length < 2) return <p className="text-t3">Watch two rows to compare them.</p>;
  return (
    <div className="flex min-h-0 flex-col gap-1">
      <p className="text-label text-t3">
        Pairwise cosine now{tracks.watched.length > MOST ? `, first ${MOST}` : ""}
      </p>
      <div
        className="grid min-h-0 gap-px"
        style={{ gridTemplateColumns: `24px repeat(${ids.length}, minmax(0, 27px))` }}
      >
        <span />
        {ids.map((id) => (
          <Name key={id} id={id} colour={colourOf(id)} />
        ))}
        {ids.map((row) => (
          <PairRow key={row} {...{ row, ids, tracks, chosen, onChoose, theme }} colour={colourOf(row)} />
        ))}
      </div>
    </div>
  );
}

function Name({ id, colour }: { id: number; colour: string }) {
  return (
    <span className="flex h-4 items-center justify-center text-label font-semibold" style={{ color: colour }}>
      {id}
    </span>
  );
}

interface PairRowProps extends Omit<PairMatrixProps, "colourOf"> {
  row: number;
  ids: readonly number[];
  colour: string;
}

function PairRow({ row, ids, tracks, chosen, onChoose, theme, colour }: PairRowProps) {
  return (
    <>
      <span
        className="flex items-center justify-end pr-1.5 text-label font-semibold"
        style={{ color: colour }}
      >
        {row}
      </span>
      {ids.map((column) => {
        const value = row === column ? null : cosineNow(tracks, row, column);
        if (value === null) return <span key={column} className="bg-s2" style={{ minHeight: 24 }} />;
        const pair = pairName(row, column);
        return (
          <button
            key={column}
            type="button"
            aria-pressed={pair === chosen}
            aria-label={`${row} and ${column}: ${formatFixed(value, 3)}. Show over the steps.`}
            title={`${row} × ${column}: ${formatFixed(value, 3)}`}
            onClick={() => onChoose(pair === chosen ? null : pair)}
            className={`h-6 min-h-0 text-label ${pair === chosen ? "outline-2 -outline-offset-2 outline-text" : ""}`}
            style={{ background: css(signed(value, theme)), color: inkOn(value, theme) }}
          >
            {formatFixed(value, 2).replace("0.", ".")}
          </button>
        );
      })}
    </>
  );
}

/** Text that can be read on the ramp: its ends are dark on light panels and light on dark ones. */
function inkOn(value: number, theme: Theme): string {
  const strong = Math.abs(value) > 0.55;
  if (theme === "light") return strong ? "#ffffff" : "#15181e";
  return strong ? "#0c0e11" : "#e7eaef";
}
