/** Which parameters the kernel lies in: every group, also those with none. */
import { useMemo, useRef } from "react";
import type { InfluenceOut } from "@/api/types";
import { formatPercent } from "@/lib/format";
import { Panel } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { coverageOf } from "./influenceData";

export default function CoveragePanel({ result }: { result: InfluenceOut }) {
  const container = useRef<HTMLUListElement>(null);
  const groups = useMemo(() => coverageOf(result.coverage), [result]);
  const largest = Math.max(...groups.map(({ share }) => share), 1e-300);
  const files = exportItems(
    `coverage-${result.name}`,
    () => container.current,
    () => [
      { name: "group", cells: groups.map(({ name }) => name) },
      { name: "share", cells: groups.map(({ share }) => share) },
    ],
    () => result.coverage,
  );
  return (
    <Panel
      title="Coverage"
      fact="share of the trace"
      tools={<ExportMenu subject="coverage" items={files} />}
      className="h-full"
      bodyClassName="overflow-auto"
    >
      <ul ref={container} className="px-3 pb-2">
        {groups.map(({ name, share }) => (
          <li key={name} className={`flex h-6 items-center gap-2 ${share > 0 ? "" : "text-t3"}`}>
            <span className="w-26 shrink-0 truncate">{name}</span>
            <span className="h-2.5 min-w-0 flex-1 rounded-mark bg-s2">
              <span
                className="block h-full rounded-mark bg-series-1"
                style={{ width: `${(share / largest) * 100}%` }}
              />
            </span>
            <span className="w-14 shrink-0 text-right">{share > 0 ? formatPercent(share, 1) : "none"}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
