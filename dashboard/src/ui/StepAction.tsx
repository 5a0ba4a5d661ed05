import { PanelAction } from "./Panel";

interface StepActionProps {
  /** The step verb as it stands now. */
  verb: { disabledReason: string | null; busy: boolean };
  onStep: () => void;
}

/** What an empty panel offers: one step fills it. */
export function StepAction({ verb, onStep }: StepActionProps) {
  return (
    <PanelAction
      icon="step"
      keys="→"
      disabledReason={verb.disabledReason}
      busy={verb.busy ? "Stepping…" : null}
      onClick={onStep}
    >
      Step
    </PanelAction>
  );
}
