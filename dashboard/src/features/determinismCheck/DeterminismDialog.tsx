/** The certificate: some steps are made twice from the same snapshot, and every bit is compared. */
import { useState } from "react";
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
    const done = await runCommand("determinism_health", { steps }, "Check");
    setBusy(false);
    setReport(done === null ? null : readReport(done.result));
  };
  return (
    <Dialog title="Check that steps repeat bit for bit" onClose={onClose}>
      <p className="mt-2 text-t2">
        The next steps are made twice from where the run stands, every bit is compared, and the run stands
        again where it stood.
      </p>
      <div className="mt-3 flex items-center gap-2">
        <span className="text-t3">Steps</span>
        <NumberField
          label="Steps to make twice"
          value={steps}
          onChange={(value) => value !== null && value >= 1 && setSteps(value)}
          check={(value) => (value < 1 ? "Give at least 1 step" : null)}
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
          disabledReason={reason ?? (parked ? null : "Pause first")}
          onClick={() => void check()}
        >
          {report ? "Check again" : "Check"}
        </Button>
      </div>
    </Dialog>
  );
}
