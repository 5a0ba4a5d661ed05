/** The filter of a table, with what is wrong with it said below the header. */
import { Field, Icon } from "@/ui";

export const PROBLEM_ID = "step-data-filter-problem";

interface FilterFieldProps {
  value: string;
  onChange: (value: string) => void;
  problem: string | null;
  /** Beside much else: it grows while it is typed into. */
  narrow?: boolean;
}

export function FilterField({ value, onChange, problem, narrow = false }: FilterFieldProps) {
  return (
    <span className="relative">
      <Icon name="filter" size={14} className="pointer-events-none absolute top-[5px] left-1.5 text-t3" />
      <Field
        small
        data-filter=""
        label="Filter rows, for example loss > 0.05"
        placeholder="Filter rows"
        error={problem}
        errorPosition="elsewhere"
        aria-describedby={problem ? PROBLEM_ID : undefined}
        value={value}
        onChange={onChange}
        onRestore={() => onChange("")}
        className={`pl-6.5 font-normal ${narrow && value === "" ? "w-26 focus:w-44" : "w-44"}`}
      />
    </span>
  );
}
