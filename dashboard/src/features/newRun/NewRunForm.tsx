/** The form of a recipe: typed fields with default, range and meaning, and what the run will be configured with. */
import { type ReactNode, useState } from "react";
import { ApiError } from "@/api/client";
import { newRequestId, startRun } from "@/api/runs";
import type { Recipe, RecipeSetting, RunRow } from "@/api/types";
import { formatCount } from "@/lib/format";
import { Button, Field, Segmented, Switch } from "@/ui";
import { preview, rangeText, readSettings, type Typed } from "./settings";

interface NewRunFormProps {
  recipes: readonly Recipe[];
  onStarted: (run: RunRow) => void;
  onCancel: () => void;
}

/** More choices than this go into a menu. */
const MAX_SEGMENTS = 4;

export function NewRunForm({ recipes, onStarted, onCancel }: NewRunFormProps) {
  const [recipeName, setRecipeName] = useState(recipes[0]?.name ?? "");
  const [typed, setTyped] = useState<Typed>({});
  const [name, setName] = useState("");
  const [paused, setPaused] = useState(true);
  const [shown, setShown] = useState(false);
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<string | null>(null);
  // One id for one wish: a click after a lost answer gets the run that was started.
  const [requestId, setRequestId] = useState(newRequestId);
  const recipe = recipes.find((one) => one.name === recipeName) ?? recipes[0];
  if (recipe === undefined) return null;
  const { settings, problems } = readSettings(recipe, typed);
  const wrong = Object.keys(problems);
  const change = (setting: RecipeSetting, value: string | boolean) => {
    setTyped({ ...typed, [setting.name]: value });
    setRequestId(newRequestId());
  };
  const start = async () => {
    if (busy || wrong.length > 0) return;
    setBusy(true);
    setRefusal(null);
    try {
      onStarted(
        await startRun({ recipe: recipe.name, name: name.trim() || null, settings, paused }, requestId),
      );
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setRefusal(error.message);
      // A refused wish is not kept; one that got no answer may still have been heard.
      if (error.status !== 0) setRequestId(newRequestId());
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      className="mt-3 flex min-h-0 flex-col gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        void start();
      }}
    >
      {recipes.length > 1 && (
        <Line label="Recipe">
          <Select
            label="Recipe"
            value={recipe.name}
            choices={recipes.map((one) => ({ value: one.name, label: one.title }))}
            onChange={(next) => {
              setRecipeName(next);
              setTyped({});
            }}
          />
        </Line>
      )}
      <p className="text-t2">
        {recipes.length === 1 && <span className="font-medium text-text">{recipe.title}. </span>}
        {recipe.about}
      </p>
      <Line label="Name">
        <Field
          label="Name"
          value={name}
          placeholder={recipe.name}
          maxLength={64}
          onChange={setName}
          className="w-full font-mono"
          data-autofocus=""
        />
      </Line>
      <div className="-mx-4 flex min-h-0 flex-col gap-2 overflow-y-auto border-y border-line px-4 py-3">
        {recipe.settings.map((setting) => (
          <SettingLine
            key={setting.name}
            setting={setting}
            typed={typed[setting.name]}
            problem={problems[setting.name] ?? null}
            onType={(value) => change(setting, value)}
          />
        ))}
      </div>
      {shown && <Preview lines={preview(recipe, settings)} />}
      {refusal !== null && (
        <p role="alert" className="text-bad">
          {refusal}
        </p>
      )}
      <div className="flex items-center gap-2">
        <Switch label="Start paused" on={paused} onChange={setPaused} />
        <span>Start paused</span>
        <Button look="ghost" aria-expanded={shown} onClick={() => setShown(!shown)}>
          {shown ? "Hide config" : "Show config"}
        </Button>
        <Button className="ml-auto" onClick={onCancel}>
          Cancel
        </Button>
        <Button
          type="submit"
          look="filled"
          busy={busy ? "Starting…" : null}
          disabledReason={wrong.length > 0 ? `Correct ${wrong.join(", ")} first` : null}
        >
          Start run
        </Button>
      </div>
    </form>
  );
}

function Line({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="grid grid-cols-[148px_1fr] items-start gap-x-3">
      <span aria-hidden="true" className="truncate pt-1.5 text-t2" title={label}>
        {label}
      </span>
      <div className="min-w-0">{children}</div>
    </div>
  );
}

interface SettingLineProps {
  setting: RecipeSetting;
  typed: string | boolean | undefined;
  problem: string | null;
  onType: (value: string | boolean) => void;
}

function SettingLine({ setting, typed, problem, onType }: SettingLineProps) {
  const range = rangeText(setting);
  return (
    <Line label={setting.name}>
      <div className="flex min-h-7 items-center gap-2">
        <Control setting={setting} typed={typed} problem={problem} onType={onType} />
        {range !== "" && problem === null && <span className="text-label text-t3">{range}</span>}
      </div>
      {setting.about !== "" && <p className="mt-0.5 text-label text-t3">{setting.about}</p>}
    </Line>
  );
}

function Control({ setting, typed, problem, onType }: SettingLineProps) {
  const { name, kind, default: usual, choices } = setting;
  if (kind === "bool") return <Switch label={name} on={Boolean(typed ?? usual)} onChange={onType} />;
  const value = String(typed ?? "");
  if (kind === "choice") {
    const now = value === "" ? String(usual) : value;
    const offered = choices.map((choice) => ({ value: choice, label: choice }));
    if (choices.length <= MAX_SEGMENTS)
      return <Segmented label={name} value={now} choices={offered} onChange={onType} />;
    return <Select label={name} value={now} choices={offered} onChange={onType} />;
  }
  const placeholder = kind === "int" && typeof usual === "number" ? formatCount(usual) : String(usual);
  return (
    <Field
      label={name}
      value={value}
      placeholder={placeholder}
      inputMode={kind === "int" ? "numeric" : kind === "float" ? "decimal" : undefined}
      error={problem}
      onChange={onType}
      className={kind === "text" ? "w-full" : "w-28"}
    />
  );
}

interface SelectProps {
  label: string;
  value: string;
  choices: readonly { value: string; label: string }[];
  onChange: (value: string) => void;
}

function Select({ label, value, choices, onChange }: SelectProps) {
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

/** What the run will be configured with; what was changed stands out. */
function Preview({ lines }: { lines: ReturnType<typeof preview> }) {
  return (
    <dl
      aria-label="Config of the run"
      className="grid max-h-36 shrink-0 grid-cols-[auto_1fr] gap-x-4 overflow-y-auto rounded-control bg-s2 px-3 py-2 font-mono"
    >
      {lines.map(({ name, value, changed }) => (
        <div key={name} className={`contents ${changed ? "text-accent" : "text-t2"}`}>
          <dt>{name}</dt>
          <dd className="truncate">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
