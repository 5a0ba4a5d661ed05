/** Which variant comes in each epoch, a cell an epoch, and the legend of the four. */
import { plural } from "@/lib/format";
import { VARIANT_TOKENS, VARIANTS } from "./curriculum";

const GROUNDS = {
  line3: "bg-line3",
  "series-1": "bg-series-1",
  "series-2": "bg-series-2",
  "series-3": "bg-series-3",
};

/** How often each of the four came. */
export function countsOf(variants: readonly number[]): number[] {
  return VARIANTS.map((_, at) => variants.filter((variant) => variant === at).length);
}

export function VariantStrip({ variants }: { variants: readonly number[] }) {
  const counts = countsOf(variants);
  const summary = VARIANTS.map((name, at) => `${name} ${counts[at]}`).join(", ");
  return (
    <>
      <div
        role="img"
        aria-label={`Variants over ${plural(variants.length, "epoch")}: ${summary}.`}
        className="mt-1 flex h-4 overflow-hidden rounded-mark"
      >
        {variants.map((variant, epoch) => (
          <span
            // biome-ignore lint/suspicious/noArrayIndexKey: an epoch is its place
            key={epoch}
            title={`epoch ${epoch + 1}: ${VARIANTS[variant] ?? variant}`}
            className={`flex-1 ${GROUNDS[VARIANT_TOKENS[variant] ?? "line3"]}`}
          />
        ))}
      </div>
      <div className="mt-1">
        <VariantLegend counts={counts} />
      </div>
    </>
  );
}

export function VariantLegend({ counts }: { counts?: readonly number[] }) {
  return (
    <ul className="flex flex-wrap gap-x-3 text-label text-t2" aria-label="Variants">
      {VARIANTS.map((name, at) => (
        <li key={name} className="flex items-center gap-1">
          <span className={`size-2.5 rounded-mark ${GROUNDS[VARIANT_TOKENS[at] ?? "line3"]}`} />
          {name}
          {counts && <span className="text-t3">{counts[at]}</span>}
        </li>
      ))}
    </ul>
  );
}
