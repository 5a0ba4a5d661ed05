/** In the top bar of an ended run, in place of what only a live one has: the best validation, and how long it took. */
import { useRunDetail } from "@/api/runs";
import { fromWire } from "@/api/types";
import { formatDuration, formatValue } from "@/lib/format";
import { useRunId } from "@/live/hooks";
import { Fact } from "./Fact";

export default function EndedFacts() {
  const { data: run } = useRunDetail(useRunId());
  const best = fromWire(run?.summary.best_val_loss);
  const { started_at: from, ended_at: to } = run ?? {};
  return (
    <>
      {best !== null && <Fact label="Best val" value={formatValue(best)} />}
      {from != null && to != null && to > from && (
        <Fact label="Took" value={<span className="font-normal text-t2">{formatDuration(to - from)}</span>} />
      )}
    </>
  );
}
