/** The command log, fed by the stream. */
import { useCommands } from "@/api/hooks";
import { CommandsView } from "./CommandsView";

export function CommandsPanel({ stale }: { stale: string | null }) {
  return <CommandsView commands={useCommands()} stale={stale} />;
}
