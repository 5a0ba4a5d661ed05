import { useConnection, useRunState } from "@/api/hooks";
import { Icon } from "@/ui";
import { Pill } from "../Frame";
import { reasonOf } from "./reason";

/** The right side of the tab row: why the run stands, ended or does not answer. */
export function LivePill({ onShowSamples }: { onShowSamples: (ids: readonly number[]) => void }) {
  const state = useRunState();
  const connection = useConnection();
  const reason = reasonOf(state, connection);
  if (reason === null) return null;
  const { tone, icon, title, text, samples } = reason;
  const show = { label: "Show samples", run: () => onShowSamples(samples) };
  return (
    <Pill
      tone={tone}
      glyph={<Icon name={icon} size={icon === "diamond" ? 11 : 14} filled={icon === "diamond"} />}
      title={title}
      text={text}
      action={samples.length > 0 ? show : undefined}
    />
  );
}
