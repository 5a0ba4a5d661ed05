/** The classes of the masks with their colours, the largest first. */
import { useMemo } from "react";
import { formatPercent } from "@/lib/format";
import { useTheme } from "@/lib/theme";
import type { MaskOut } from "./maskTypes";
import { BACKGROUND, classCss, maskTokens } from "./tiles/maskColors";

const SHOWN = 8;

export function MaskLegend({ mask }: { mask: MaskOut }) {
  const theme = useTheme();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours follow the theme
  const tokens = useMemo(maskTokens, [theme]);
  const classes = [...mask.classes].sort((a, b) => b.share - a.share);
  const rest = classes.length - SHOWN;
  return (
    <ul
      className="flex min-h-6 min-w-0 flex-wrap items-center gap-x-3 text-label text-t2"
      aria-label="Classes"
    >
      {classes.slice(0, SHOWN).map(({ id, name, share }) => (
        <li
          key={id}
          className="flex items-center gap-1"
          title={`class ${id}, ${formatPercent(share, 1)} of the pixels`}
        >
          <span
            className={`size-2.5 rounded-mark ${id === BACKGROUND ? "border border-line3" : ""}`}
            style={id === BACKGROUND ? undefined : { background: classCss(id, tokens) }}
          />
          {name}
        </li>
      ))}
      {rest > 0 && <li className="text-t3">{rest} more</li>}
    </ul>
  );
}
