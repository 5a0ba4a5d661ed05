/** Which scalars share a chart, and in what order the charts stand. */

export interface ChartSpec {
  /** Name of the scalar measured in training, or of the only one. */
  id: string;
  train: string | null;
  validation: string | null;
}

const VALIDATION = /^(?:val|valid|validation|eval)([_/.])(.+)$/;

/** The validation metric goes with the one of the same name, with or without `train` in front. */
export function pairNames(names: readonly string[]): ChartSpec[] {
  const known = new Set(names);
  const paired = new Map<string, string>();
  for (const name of [...names].sort()) {
    const [, separator, base] = VALIDATION.exec(name) ?? [];
    if (base === undefined) continue;
    const train = [base, `train${separator}${base}`].find(
      (one) => known.has(one) && !paired.has(one) && !VALIDATION.test(one),
    );
    if (train !== undefined) paired.set(train, name);
  }
  const overlaid = new Set(paired.values());
  return names
    .filter((name) => !overlaid.has(name))
    .map((name) => {
      if (VALIDATION.test(name)) return { id: name, train: null, validation: name };
      return { id: name, train: name, validation: paired.get(name) ?? null };
    });
}

/** Those whose names contain the text, pinned ones first in the order they were pinned, then by name. */
export function shownCharts(
  charts: readonly ChartSpec[],
  pinned: readonly string[],
  filter: string,
): ChartSpec[] {
  const wanted = filter.trim().toLowerCase();
  const matches = ({ id, validation }: ChartSpec) =>
    `${id}\n${validation ?? ""}`.toLowerCase().includes(wanted);
  const rank = ({ id }: ChartSpec) => (pinned.includes(id) ? pinned.indexOf(id) : pinned.length);
  return charts.filter(matches).sort((a, b) => rank(a) - rank(b) || compareNames(a.id, b.id));
}

const compareNames = new Intl.Collator("en", { numeric: true }).compare;

/** The scalars of a chart. */
export const namesIn = ({ train, validation }: ChartSpec): string[] =>
  [train, validation].filter((name) => name !== null);
