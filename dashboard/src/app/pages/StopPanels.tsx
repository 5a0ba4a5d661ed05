/** Below the batch of a diagnosed stop: what changed, the breakpoints and the commands, where one is shown at a time. */
import { BreakpointsPanel } from "@/features/breakpoints/BreakpointsPanel";
import type { Draft } from "@/features/breakpoints/conditions";
import { CommandsPanel } from "@/features/commands/CommandsPanel";
import ChangesPanel from "@/features/diagnosis/ChangesPanel";
import { formatCount } from "@/lib/format";
import { useUrlChoice } from "@/lib/urlState";
import { useDiagnosis } from "@/live/diagnosis";
import { useBreakpoints, useCommands } from "@/live/hooks";
import { PanelChoice, Segmented } from "@/ui";
import { useShownStep } from "./useShownStep";

interface StopPanelsProps {
  /** What the focused thing proposes for a new breakpoint. */
  propose: () => Partial<Draft>;
  stale: string | null;
}

const SHOWN = ["changes", "breakpoints", "commands"] as const;

export default function StopPanels({ propose, stale }: StopPanelsProps) {
  const [shown, setShown] = useUrlChoice("below", SHOWN);
  const onStep = useShownStep();
  const changes = useDiagnosis()?.changes.filter(({ step }) => step !== null).length ?? 0;
  const breakpoints = useBreakpoints().length;
  const commands = useCommands().length;
  const choice = (
    <Segmented
      label="Shown here"
      value={shown}
      choices={[
        { value: "changes", label: `Changes ${formatCount(changes)}` },
        { value: "breakpoints", label: `Breakpoints ${formatCount(breakpoints)}` },
        { value: "commands", label: `Commands ${formatCount(commands)}` },
      ]}
      onChange={setShown}
    />
  );
  return (
    <PanelChoice value={choice}>
      {shown === "changes" && <ChangesPanel onStep={onStep} stale={stale} />}
      {shown === "breakpoints" && <BreakpointsPanel propose={propose} stale={stale} />}
      {shown === "commands" && <CommandsPanel stale={stale} />}
    </PanelChoice>
  );
}
