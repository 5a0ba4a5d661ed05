/** What people write to a run: tags and a note. */
import { type KeyboardEvent, useEffect, useState } from "react";
import { ApiError } from "@/api/client";
import { labelRun } from "@/api/runs";
import type { RunRow } from "@/api/types";
import { Button, Icon, Panel } from "@/ui";

/** Limits of what people write to a run, as the server has them. */
const MAX_TAGS = 32;
const MAX_NOTE = 10_000;
const MAX_LETTERS = 64;

/** The tags with those that were typed, commas between them; each once, none empty. */
export function withTag(tags: readonly string[], typed: string): string[] {
  const added = typed
    .split(",")
    .map((tag) => tag.trim().slice(0, MAX_LETTERS))
    .filter(Boolean);
  return [...new Set([...tags, ...added])].slice(0, MAX_TAGS);
}

interface LabelsPanelProps {
  run: Pick<RunRow, "id" | "tags" | "note">;
  /** Why nothing can be written; null when it can. */
  disabledReason: string | null;
  onLabelled: (run: RunRow) => void;
}

export function LabelsPanel({ run, disabledReason, onLabelled }: LabelsPanelProps) {
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const write = async (labels: Partial<Pick<RunRow, "tags" | "note">>): Promise<boolean> => {
    setBusy(true);
    try {
      onLabelled(await labelRun(run.id, labels));
      setProblem(null);
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.message);
      return false;
    } finally {
      setBusy(false);
    }
  };
  return (
    <Panel title="Tags and note" className="h-full" bodyClassName="gap-2 px-3 pb-3">
      <Tags tags={run.tags} disabledReason={disabledReason} onChange={(tags) => void write({ tags })} />
      <Note
        key={run.id}
        note={run.note}
        busy={busy}
        disabledReason={disabledReason}
        onSave={(note) => write({ note })}
      />
      {problem !== null && (
        <p role="alert" className="text-bad">
          {problem}
        </p>
      )}
    </Panel>
  );
}

interface TagsProps {
  tags: readonly string[];
  disabledReason: string | null;
  onChange: (tags: string[]) => void;
}

function Tags({ tags, disabledReason, onChange }: TagsProps) {
  const [typed, setTyped] = useState("");
  const full = tags.length >= MAX_TAGS;
  const add = () => {
    const next = withTag(tags, typed);
    setTyped("");
    if (next.length > tags.length) onChange(next);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" || event.key === ",") {
      event.preventDefault();
      add();
    } else if (event.key === "Backspace" && typed === "" && tags.length > 0) onChange(tags.slice(0, -1));
  };
  return (
    <div className="flex flex-wrap items-center gap-1">
      {tags.map((tag) => (
        <span key={tag} className="flex h-5 items-center rounded-chip bg-s3 pl-1.5">
          {tag}
          <button
            type="button"
            aria-label={`Remove tag ${tag}`}
            aria-disabled={disabledReason !== null || undefined}
            onClick={() => disabledReason === null && onChange(tags.filter((one) => one !== tag))}
            className="flex size-5 items-center justify-center text-t2 hover:text-text"
          >
            <Icon name="close" size={12} />
          </button>
        </span>
      ))}
      {disabledReason === null && !full && (
        <input
          aria-label="Add a tag"
          placeholder="Add a tag"
          value={typed}
          maxLength={64}
          autoComplete="off"
          onChange={(event) => setTyped(event.target.value)}
          onBlur={add}
          onKeyDown={onKeyDown}
          className="h-6 w-24 rounded-control bg-s2 px-2 placeholder:text-t3"
        />
      )}
      {tags.length === 0 && disabledReason !== null && <span className="text-t3">No tags</span>}
    </div>
  );
}

interface NoteProps {
  note: string;
  busy: boolean;
  disabledReason: string | null;
  onSave: (note: string) => Promise<boolean>;
}

function Note({ note, busy, disabledReason, onSave }: NoteProps) {
  const [typed, setTyped] = useState<string | null>(null);
  // Somebody else may have written meanwhile; what is being typed here stays.
  useEffect(() => setTyped((now) => (now === note ? null : now)), [note]);
  const changed = typed !== null && typed !== note;
  const save = async () => {
    if (changed && (await onSave(typed))) setTyped(null);
  };
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-2">
      <textarea
        aria-label="Note"
        placeholder={disabledReason === null ? "What you tried, and the result" : "No note"}
        value={typed ?? note}
        readOnly={disabledReason !== null}
        maxLength={MAX_NOTE}
        onChange={(event) => setTyped(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void save();
        }}
        className="min-h-14 flex-1 resize-none rounded-control bg-s2 px-2.5 py-1.5 placeholder:text-t3"
      />
      {changed && (
        <div className="flex justify-end gap-2">
          <Button small onClick={() => setTyped(null)}>
            Restore
          </Button>
          <Button
            small
            look="filled"
            keys="Ctrl Enter"
            busy={busy ? "Saving…" : null}
            onClick={() => void save()}
          >
            Save note
          </Button>
        </div>
      )}
    </div>
  );
}
