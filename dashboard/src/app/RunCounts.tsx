import { useRunTable } from "@/api/runList";
import { formatCount } from "@/lib/format";

/** How many runs there are, and how they are. */
export default function RunCounts() {
  const { states, total } = useRunTable();
  const count = (...names: string[]) => names.reduce((sum, name) => sum + (states[name] ?? 0), 0);
  const broken = count("failed", "killed");
  return (
    <>
      <h1 className="text-bar font-semibold">All runs</h1>
      <div className="flex items-baseline gap-5">
        <Count value={total} word={total === 1 ? "run" : "runs"} />
        <Count value={count("running", "stepping")} word="running" />
        <Count value={count("paused", "pausing")} word="paused" />
        {broken > 0 && <Count value={broken} word="failed or killed" bad />}
      </div>
    </>
  );
}

function Count({ value, word, bad = false }: { value: number; word: string; bad?: boolean }) {
  return (
    <span className="flex items-baseline gap-2 whitespace-nowrap">
      <span className={`text-bar font-medium ${bad ? "text-bad" : ""}`}>{formatCount(value)}</span>
      <span className="text-label text-t3">{word}</span>
    </span>
  );
}
