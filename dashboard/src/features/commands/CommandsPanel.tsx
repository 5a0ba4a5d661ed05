/** The command log, fed by the stream. */

import { hasEnded } from "@/live/commandAvailability";
import { useCommands, useRunState } from "@/live/hooks";
import { CommandsView } from "./CommandsView";

export function CommandsPanel({ stale }: { stale: string | null }) {
  const ended = useRunState(hasEnded) ?? false;
  return <CommandsView commands={useCommands()} ended={ended} stale={stale} />;
}
