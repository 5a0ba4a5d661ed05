/** The determinism check: runs some steps twice from one snapshot and compares every bit. */

import { useState } from "react";
import { PAUSE_FIRST } from "@/lib/messages";
import { runCommand } from "@/live/commands";
import { useCommandReason, useRunState } from "@/live/hooks";
import { Button, Chip, Dialog, Icon, NumberField } from "@/ui";

interface Report {
  text: string;
  exact: boolean;
}

/** What the command answered. */
export function readReport(result: unknown): Report | null {
  if (result === null || typeof result !== "object") return null;
  const { text, data } = result as { text?: unknown; data?: { exact?: unknown } };
  return typeof text === "string" ? { text, exact: data?.exact === true } : null;
}

export default function DeterminismDialog({ onClose }: { onClose: () => void }) {
  const reason = useCommandReason("determinism_health");
  const parked = useRunState((state) => state.parked) ?? false;
  const [steps, setSteps] = useState(10);
  const [busy, setBusy] = useState(false);
  const [report, setReport] = useState<Report | null>(null);
  const check = async () => {
    setBusy(true);
    const done = await runCommand("determinism_health", { steps }, "Determinism check");
    setBusy(false);
    setReport(done === null ? null : readReport(done.result));
  };
  return (
    <Dialog title="Determinism check" onClose={onClose}>
      <p className="mt-2 text-t2">
        Runs the next steps twice from the current state and compares every bit. The run then returns to the
        current step.
      </p>
      <div className="mt-3 flex items-center gap-2">
        <span className="text-t3">Steps</span>
        <NumberField
          label="Steps to run twice"
          value={steps}
          onChange={(value) => value !== null && value >= 1 && setSteps(value)}
          check={(value) => (value < 1 ? "Enter 1 or more" : null)}
          className="w-20"
          data-autofocus=""
        />
      </div>
      {report && (
        <div className="mt-3 flex items-start gap-2" role="status">
          <Chip
            tone={report.exact ? "ok" : "bad"}
            glyph={<Icon name={report.exact ? "check" : "close"} size={14} />}
          >
            {report.exact ? "Exact" : "Differs"}
          </Chip>
          <p className="whitespace-pre-wrap text-t2">{report.text}</p>
        </div>
      )}
      <div className="mt-4 flex justify-end gap-2">
        <Button onClick={onClose}>Close</Button>
        <Button
          look="filled"
          busy={busy ? "Checking…" : null}
          disabledReason={reason ?? (parked ? null : PAUSE_FIRST)}
          onClick={() => void check()}
        >
          {report ? "Check again" : "Check"}
        </Button>
      </div>
    </Dialog>
  );
}
