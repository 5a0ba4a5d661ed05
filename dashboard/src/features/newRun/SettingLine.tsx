/** One setting of a recipe: its label, the control for its kind, its range and meaning. */
import type { ReactNode } from "react";
import { useDataFiles } from "@/api/recipes";
import type { RecipeSetting } from "@/api/types";
import { formatCount } from "@/lib/format";
import { Field, Segmented, Switch } from "@/ui";
import { fitsSegments, rangeText, shortName, writeSetting } from "./settings";

export function Line({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="grid grid-cols-[148px_1fr] items-start gap-x-3">
      <span aria-hidden="true" className="truncate pt-1.5 text-t2" title={label}>
        {label}
      </span>
      <div className="min-w-0">{children}</div>
    </div>
  );
}

/** The data files of the server; a run gets their id, never a path. */
function FileSelect({
  label,
  value,
  onType,
}: {
  label: string;
  value: string;
  onType: (value: string) => void;
}) {
  const { data, error } = useDataFiles();
  if (error !== null) return <span className="text-bad">{error.message}</span>;
  const files = data?.files ?? [];
  if (files.length === 0)
    return (
      <span className="text-t3">{data === undefined ? "Loading files…" : "No data files on the server"}</span>
    );
  const offered = files.map(({ id }) => ({ value: id, label: id }));
  return (
    <Select
      label={label}
      value={value}
      choices={[{ value: "", label: "none" }, ...offered]}
      onChange={onType}
    />
  );
}

export interface SettingLineProps {
  setting: RecipeSetting;
  typed: string | boolean | undefined;
  problem: string | null;
  onType: (value: string | boolean) => void;
}

export function SettingLine({ setting, typed, problem, onType }: SettingLineProps) {
  const range = rangeText(setting);
  return (
    <Line label={shortName(setting)}>
      <div className="flex min-h-7 items-center gap-2">
        <Control setting={setting} typed={typed} problem={problem} onType={onType} />
        {range !== "" && problem === null && <span className="text-label text-t3">{range}</span>}
      </div>
      {setting.about !== "" && <p className="mt-0.5 text-label text-t3">{setting.about}</p>}
    </Line>
  );
}

export function Control({ setting, typed, problem, onType }: SettingLineProps) {
  const { name, kind, default: usual, choices } = setting;
  if (kind === "file") return <FileSelect label={name} value={String(typed ?? "")} onType={onType} />;
  if (kind === "bool") return <Switch label={name} on={Boolean(typed ?? usual)} onChange={onType} />;
  const value = String(typed ?? "");
  if (kind === "choice") {
    const now = value === "" ? String(usual) : value;
    const offered = choices.map((choice) => ({ value: choice, label: choice }));
    if (fitsSegments(choices))
      return <Segmented label={name} value={now} choices={offered} onChange={onType} />;
    return <Select label={name} value={now} choices={offered} onChange={onType} />;
  }
  const placeholder = kind === "int" && typeof usual === "number" ? formatCount(usual) : writeSetting(usual);
  return (
    <Field
      label={name}
      value={value}
      placeholder={placeholder}
      inputMode={kind === "int" ? "numeric" : kind === "float" ? "decimal" : undefined}
      error={problem}
      onChange={onType}
      className={kind === "text" || kind === "words" ? "w-full" : "w-28"}
    />
  );
}

interface SelectProps {
  label: string;
  value: string;
  choices: readonly { value: string; label: string }[];
  onChange: (value: string) => void;
}

export function Select({ label, value, choices, onChange }: SelectProps) {
  return (
    <select
      aria-label={label}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      className="h-7 max-w-full rounded-control bg-s2 px-2 font-medium"
    >
      {choices.map((choice) => (
        <option key={choice.value} value={choice.value}>
          {choice.label}
        </option>
      ))}
    </select>
  );
}
