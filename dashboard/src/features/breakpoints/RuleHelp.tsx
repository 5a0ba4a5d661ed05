/** What a rule looks for, in words, under a small button of its row. */
import { Explanation, Icon, Popover } from "@/ui";
import { useRules } from "./rules";

export default function RuleHelp({ rule }: { rule: string }) {
  const entry = useRules().find((one) => one.rule === rule);
  if (entry === undefined) return null;
  return (
    <Popover
      label={`About ${entry.title.toLowerCase()}`}
      button={<Icon name="help" size={14} />}
      className="flex size-6 shrink-0 items-center justify-center text-t3"
    >
      <Explanation {...entry.explanation} finding={entry.words} />
    </Popover>
  );
}
