/** The command log, fed by the stream. */
import { useCommands, useRunState } from "@/api/hooks";
import { hasEnded } from "@/lib/allowed";
import { CommandsView } from "./CommandsView";

export function CommandsPanel({ stale }: { stale: string | null }) {
  const ended = useRunState(hasEnded) ?? false;
  return <CommandsView commands={useCommands()} ended={ended} stale={stale} />;
}
