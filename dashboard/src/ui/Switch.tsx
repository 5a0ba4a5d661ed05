import { Tooltip } from "./Tooltip";

interface SwitchProps {
  label: string;
  on: boolean;
  onChange: (on: boolean) => void;
  disabledReason?: string | null;
}

/** On or off, at once. The mark is 20 × 12, the target 24 high. */
export function Switch({ label, on, onChange, disabledReason }: SwitchProps) {
  const off = disabledReason != null;
  return (
    <Tooltip text={disabledReason}>
      <button
        type="button"
        role="switch"
        aria-checked={on}
        aria-label={label}
        aria-disabled={off || undefined}
        onClick={() => !off && onChange(!on)}
        className="inline-flex h-6 shrink-0 items-center rounded-control"
      >
        <span
          className={`flex h-3 w-5 items-center rounded-full p-0.5 transition-colors ${off ? "bg-line2" : on ? "bg-accent" : "bg-line3"}`}
        >
          <span
            className={`size-2 rounded-full bg-surface transition-transform ${on ? "translate-x-2" : ""}`}
          />
        </span>
      </button>
    </Tooltip>
  );
}
