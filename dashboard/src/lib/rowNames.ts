/** How a run names the columns of its rows: by the hint of its table, else by the columns' own names. */

interface RowHint {
  fields: Readonly<Record<string, { label: string | null }>>;
  status: { field: string } | null;
  sort: { field: string } | null;
}

export interface RowNames {
  labelOf: (column: string) => string;
  /** The column by which the run judges or sorts its rows; null where it names none. */
  main: string | null;
  /** Columns in the order in which they are listed; others follow. */
  order: readonly string[];
}

export const COS_TO_START = "weight_cos_to_init";

/** Columns that midstep computes for every run. A run that knows a better word says so in its hint. */
const COMPUTED = new Map([
  ["grad_magnitude", "Gradient"],
  ["som_magnitude", "Other force"],
  [COS_TO_START, "Cos to start"],
]);

/** `mean_activation` is "Mean activation". */
export function spacedName(name: string): string {
  const spaced = name.replaceAll("_", " ");
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}

export function rowNames(hint: RowHint | null): RowNames {
  const fields = hint?.fields ?? {};
  const main = hint?.status?.field ?? hint?.sort?.field ?? null;
  return {
    labelOf: (column) => fields[column]?.label ?? COMPUTED.get(column) ?? spacedName(column),
    main,
    order: [...new Set([...(main === null ? [] : [main]), COS_TO_START, ...Object.keys(fields)])],
  };
}
