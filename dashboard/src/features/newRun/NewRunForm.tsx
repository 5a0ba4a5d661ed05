/** The form of a new run: a recipe with its typed fields and the config that follows, or a script of the server. */
import { useState } from "react";
import { ApiError } from "@/api/client";
import { startScript } from "@/api/recipes";
import { newRequestId, startRun } from "@/api/runs";
import type { Recipe, RecipeSetting, RunRow, Script } from "@/api/types";
import { Button, Field, Switch } from "@/ui";
import { ComposedPreview } from "./ComposedPreview";
import { SettingGroup } from "./SettingGroup";
import { Line, Select } from "./SettingLine";
import { groupSettings, preview, readSettings, type Typed } from "./settings";

interface NewRunFormProps {
  recipes: readonly Recipe[];
  /** Those that the server was started with. */
  scripts: readonly Script[];
  onStarted: (run: RunRow) => void;
  onCancel: () => void;
}

export function NewRunForm({ recipes, scripts, onStarted, onCancel }: NewRunFormProps) {
  // The user's own script comes first: it was named on purpose.
  const [chosen, setChosen] = useState(scripts[0]?.id ?? recipes[0]?.name ?? "");
  const [typed, setTyped] = useState<Typed>({});
  const [name, setName] = useState("");
  const [paused, setPaused] = useState(true);
  const [shown, setShown] = useState(false);
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<string | null>(null);
  // One id for one wish: a click after a lost answer gets the run that was started.
  const [requestId, setRequestId] = useState(newRequestId);
  const script = scripts.find((one) => one.id === chosen);
  const recipe = script ? null : (recipes.find((one) => one.name === chosen) ?? recipes[0]);
  if (recipe === undefined) return null;
  const { settings, problems } = recipe ? readSettings(recipe, typed) : { settings: {}, problems: {} };
  const wrong = Object.keys(problems);
  const isComposed = recipe?.settings.some(({ group }) => group !== "") ?? false;
  const change = (setting: RecipeSetting, value: string | boolean) => {
    setTyped({ ...typed, [setting.name]: value });
    setRequestId(newRequestId());
  };
  const start = async () => {
    if (busy || wrong.length > 0) return;
    setBusy(true);
    setRefusal(null);
    try {
      const given = { name: name.trim() || null, paused };
      onStarted(
        script
          ? await startScript(script.id, given, requestId)
          : await startRun({ recipe: recipe?.name ?? "", settings, ...given }, requestId),
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
      {recipes.length + scripts.length > 1 && (
        <Line label={scripts.length > 0 ? "Script or recipe" : "Recipe"}>
          <Select
            label={scripts.length > 0 ? "Script or recipe" : "Recipe"}
            value={script?.id ?? recipe?.name ?? ""}
            choices={[
              ...scripts.map((one) => ({ value: one.id, label: one.title })),
              ...recipes.map((one) => ({ value: one.name, label: one.title })),
            ]}
            onChange={(next) => {
              setChosen(next);
              setTyped({});
              setRequestId(newRequestId());
            }}
          />
        </Line>
      )}
      {script && (
        <p className="text-t2">
          Runs as <code className="font-mono text-text">midstep run {script.title}</code>. Its arguments are
          fixed where the server was started. The run appears with its first optimizer step.
        </p>
      )}
      {recipe && (
        <p className="text-t2">
          {recipes.length === 1 && <span className="font-medium text-text">{recipe.title}. </span>}
          {recipe.about}
        </p>
      )}
      <Line label="Name">
        <Field
          label="Name"
          value={name}
          placeholder={script?.name ?? recipe?.name}
          maxLength={64}
          onChange={setName}
          className="w-full font-mono"
          data-autofocus=""
        />
      </Line>
      {recipe && (
        <div className="-mx-4 flex min-h-0 flex-col gap-2 overflow-y-auto border-y border-line px-4 py-3">
          {groupSettings(recipe.settings).map((group) => (
            <SettingGroup
              key={`${recipe.name} ${group.name}`}
              group={group}
              typed={typed}
              problems={problems}
              onType={change}
            />
          ))}
        </div>
      )}
      {shown && recipe && isComposed && <ComposedPreview recipe={recipe.name} settings={settings} />}
      {shown && recipe && !isComposed && <Preview lines={preview(recipe, settings)} />}
      {refusal !== null && (
        <p role="alert" className="text-bad">
          {refusal}
        </p>
      )}
      <div className="flex items-center gap-2">
        <Switch label="Start paused" on={paused} onChange={setPaused} />
        <span>Start paused</span>
        {recipe && (
          <Button look="ghost" aria-expanded={shown} onClick={() => setShown(!shown)}>
            {shown ? "Hide config" : "Show config"}
          </Button>
        )}
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
