/** Verbs and commands: busy at once, ended only by the server's answer, refused with a message that offers the way out. */
import { create } from "zustand";
import { ApiError, api, runPath } from "@/api/client";
import type { CommandOut, StateOut } from "@/api/types";
import type { components, paths } from "@/api/types.gen";
import { newId } from "@/lib/ids";
import { showToast, type ToastAction } from "@/lib/toasts";
import type { VerbName } from "./commandAvailability";
import { useRun } from "./store";

export type { VerbName } from "./commandAvailability";

/** Body of a POST route, from the server's OpenAPI document. */
type BodyOf<P extends keyof paths> = paths[P] extends {
  post: { requestBody?: { content: { "application/json": infer Body } } };
}
  ? NonNullable<Body>
  : never;

/** Settings of each verb, without the id that `askVerb` adds. */
export type VerbPayload = {
  [V in VerbName]: Omit<BodyOf<`/api/v1/runs/{run_id}/debug/${V}`>, "id">;
};

/** Commands with a name of their own; the last member of the union takes any name. */
type WithOwnName<C extends { command: string }> = C extends unknown
  ? string extends C["command"]
    ? never
    : C
  : never;
type KnownCommand = WithOwnName<components["schemas"]["CommandIn"]>;
type CommandName = KnownCommand["command"];

/** Settings of a command; what is left out takes the server's default. */
type CommandPayload<N extends CommandName, C = KnownCommand> = C extends {
  command: infer Names;
  payload?: infer Payload;
}
  ? N extends Names
    ? Partial<NonNullable<Payload>>
    : never
  : never;

export interface Outcome {
  status: "done" | "refused" | "failed";
  reason: string | null;
}

interface Busy {
  /** Verbs without a response yet, by name: when they were sent. */
  verbs: Partial<Record<VerbName, number>>;
}

/** Verbs that this page has sent and that have no response yet. */
export const useBusy = create<Busy>()(() => ({ verbs: {} }));

const TITLES: Record<VerbName, string> = {
  pause: "Pause",
  resume: "Resume",
  step: "Step",
  back: "Back",
  run_until: "Run to",
  stop: "Stop",
};

const POLL_MS = 1_000;

function setBusy(verb: VerbName, since: number | null): void {
  useBusy.setState(({ verbs }) => {
    const { [verb]: _, ...others } = verbs;
    return { verbs: since === null ? others : { ...others, [verb]: since } };
  });
}

function ended(command: CommandOut | undefined): Outcome | null {
  if (command === undefined || command.status === "pending" || command.status === "running") return null;
  return { status: command.status, reason: command.reason ?? null };
}

/** Waits for a command that takes longer: the stream says when it ended, a question each second covers a lost message. */
function endOf(runId: string, id: string): Promise<Outcome> {
  return new Promise((resolve) => {
    const finish = (outcome: Outcome) => {
      clearInterval(timer);
      unsubscribe();
      resolve(outcome);
    };
    const look = () => {
      const outcome = ended(useRun.getState().commands.find((command) => command.id === id));
      if (outcome !== null) finish(outcome);
    };
    const ask = async () => {
      try {
        useRun
          .getState()
          .putCommand(
            await api.get<"/runs/{run_id}/commands/{command_id}">(runPath(runId, `/commands/${id}`)),
          );
      } catch (error) {
        // While the link is down the request is repeated. A run that does not exist any more answers 404.
        if (error instanceof ApiError && error.status === 404)
          finish({ status: "failed", reason: error.message });
      }
    };
    const unsubscribe = useRun.subscribe(look);
    const timer = setInterval(() => void ask(), POLL_MS);
    look();
  });
}

/** The one thing to do about a refusal, where there is one. */
function wayOut(verb: VerbName): ToastAction | undefined {
  const running = useRun.getState().state?.paused === false;
  return running && verb === "step" ? { label: "Pause", run: () => void runVerb("pause", {}) } : undefined;
}

export function reportOutcome(title: string, outcome: Outcome, action?: ToastAction): void {
  if (outcome.status === "done") return;
  showToast({
    kind: outcome.status,
    title: `${title} ${outcome.status}.`,
    text: outcome.reason ?? undefined,
    action,
  });
}

export function outcomeOf(error: unknown): Outcome {
  if (!(error instanceof ApiError)) throw error;
  const refused = error.status >= 400 && error.status < 500;
  return { status: refused ? "refused" : "failed", reason: error.message };
}

/** Each press of Step or Back counts. Any other verb is sent once, even if pressed twice. */
const COUNTED: ReadonlySet<VerbName> = new Set(["step", "back"]);

/** The newest request of each verb: a counted verb that is pressed again waits for it. */
const underWay = new Map<VerbName, Promise<Outcome | null>>();

/** Asks the run for a verb. Null when that is left out: it is on its way already, or what it was to follow did not succeed. */
export async function runVerb<V extends VerbName>(verb: V, payload: VerbPayload[V]): Promise<Outcome | null> {
  const { runId } = useRun.getState();
  const before = underWay.get(verb);
  if (runId === null || (before !== undefined && !COUNTED.has(verb))) return null;
  const pending = before === undefined ? askVerb(runId, verb, payload) : follow(before, runId, verb, payload);
  underWay.set(verb, pending);
  try {
    return await pending;
  } finally {
    if (underWay.get(verb) === pending) {
      underWay.delete(verb);
      setBusy(verb, null);
    }
  }
}

async function follow<V extends VerbName>(
  before: Promise<Outcome | null>,
  runId: string,
  verb: V,
  payload: VerbPayload[V],
): Promise<Outcome | null> {
  const first = await before;
  return first?.status === "done" ? askVerb(runId, verb, payload) : null;
}

async function askVerb<V extends VerbName>(
  runId: string,
  verb: V,
  payload: VerbPayload[V],
): Promise<Outcome> {
  const id = newId();
  setBusy(verb, Date.now());
  try {
    const answer = await api.post<"/runs/{run_id}/debug/step">(runPath(runId, `/debug/${verb}`), {
      ...payload,
      id,
    });
    if (answer.status !== 202) {
      useRun.getState().setState(answer.body as StateOut);
      return { status: "done", reason: null };
    }
    const outcome = await endOf(runId, id);
    reportOutcome(TITLES[verb], outcome);
    return outcome;
  } catch (error) {
    const outcome = outcomeOf(error);
    reportOutcome(TITLES[verb], outcome, wayOut(verb));
    return outcome;
  }
}

/** Gives any command of the registry and waits for its end; what it answered, or null where it did not succeed. */
export async function runCommand<N extends CommandName>(
  name: N,
  payload: CommandPayload<N>,
  title: string,
): Promise<CommandOut | null> {
  const { runId } = useRun.getState();
  if (runId === null) return null;
  const id = newId();
  try {
    await api.post<"/runs/{run_id}/commands">(runPath(runId, "/commands"), { command: name, payload, id });
    const outcome = await endOf(runId, id);
    reportOutcome(title, outcome);
    return outcome.status === "done"
      ? await api.get<"/runs/{run_id}/commands/{command_id}">(runPath(runId, `/commands/${id}`))
      : null;
  } catch (error) {
    reportOutcome(title, outcomeOf(error));
    return null;
  }
}
