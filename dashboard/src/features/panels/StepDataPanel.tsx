/** Step data on the Step tab: the first table, or the chosen entry; and one maximized entry on the Panels tab. */
import { useState } from "react";
import type { StepDataOut } from "@/api/types";
import { useUrlState } from "@/lib/urlState";
import { IconButton, Menu } from "@/ui";
import type { Sort } from "@/ui/table/DataTable";
import { EntryMenu } from "./EntryMenu";
import { EntryPanel } from "./EntryPanel";
import { NothingCaptured } from "./NothingCaptured";
import { useStepKeys } from "./panelKeys";
import { useChosenKey, useKeyList } from "./useStepEntry";

interface StepDataPanelProps {
  /** Shows the Panels tab, where an entry can be large. */
  onPanels: () => void;
  stale: string | null;
}

export function StepDataPanel({ stale, onPanels }: StepDataPanelProps) {
  const keys = useStepKeys();
  const [chosen, setChosen] = useUrlState("key", "");
  const [shown, setShown] = useState<StepDataOut | null>(null);
  const [filter, setFilter] = useUrlState("filter", "");
  const [order, setOrder] = useUrlState("order", "");
  const [, setLarge] = useUrlState("panel", "");
  const key = useChosenKey(keys, chosen, shown);
  if (key === null) return <NothingCaptured />;
  const menu = keys.length > 1 && (
    <Menu
      align="start"
      heading="Step data"
      trigger={<IconButton icon="chevronDown" label="Choose an entry" className="-mx-1" />}
      items={keys.map((one) => ({ label: one, checked: one === key, onSelect: () => setChosen(one) }))}
    />
  );
  return (
    <EntryPanel
      stepKey={key}
      {...{ menu, filter, stale }}
      onFilter={setFilter}
      sort={readSort(order)}
      onSort={(sort: Sort) => setOrder(sortText(sort))}
      onEntry={setShown}
      corner={
        <IconButton
          icon="expand"
          label={`Maximize ${key}`}
          onClick={() => {
            onPanels();
            setLarge(key);
          }}
        />
      }
    />
  );
}

interface LargePanelProps {
  stepKey: string;
  onKey: (key: string) => void;
  onBack: () => void;
  stale: string | null;
}

/** One panel with the list of all keys beside it. */
export function LargePanel({ stepKey, onKey, onBack, stale }: LargePanelProps) {
  useKeyList();
  const keys = useStepKeys();
  const [filter, setFilter] = useUrlState("filter", "");
  const [order, setOrder] = useUrlState("order", "");
  return (
    <div className="grid h-full grid-cols-[240px_minmax(0,1fr)] gap-2 max-[719px]:grid-cols-1 max-[719px]:grid-rows-[132px_minmax(0,1fr)]">
      <EntryMenu keys={keys} selected={stepKey} onSelect={onKey} stale={stale} />
      <EntryPanel
        stepKey={stepKey}
        {...{ filter, stale }}
        onFilter={setFilter}
        sort={readSort(order)}
        onSort={(sort: Sort) => setOrder(sortText(sort))}
        corner={<IconButton icon="shrink" label="Back to all panels" pressed onClick={onBack} />}
      />
    </div>
  );
}

/** A sort as it stands in the address: `win_rate` for descending, `-win_rate` for ascending. */
function sortText({ column, direction }: Sort): string {
  return direction === "descending" ? column : `-${column}`;
}

function readSort(text: string): Sort | null {
  if (text === "") return null;
  return text.startsWith("-")
    ? { column: text.slice(1), direction: "ascending" }
    : { column: text, direction: "descending" };
}
