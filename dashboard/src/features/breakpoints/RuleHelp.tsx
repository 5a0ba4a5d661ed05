/** What a rule looks for, in words, under a small button of its row. */
import { Explanation, Icon, Popover } from "@/ui";
import { useRules } from "./rules";

export default function RuleHelp({ rule }: { rule: string }) {
  const found = useRules().find((one) => one.rule === rule);
  if (found === undefined) return null;
  return (
    <Popover
      label={`About ${found.title.toLowerCase()}`}
      button={<Icon name="help" size={14} />}
      className="flex size-6 shrink-0 items-center justify-center text-t3"
    >
      <Explanation {...found.explanation} finding={found.words} />
    </Popover>
  );
}
