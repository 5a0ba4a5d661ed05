import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { CommandOut, StateOut } from "@/api/types";
import { useToasts } from "@/lib/toasts";
import { runVerb, useBusy } from "./commands";
import { useRun } from "./store";

/** Only a test that fails waits this long, on a machine that may be busy. */
const PATIENCE_MS = 20_000;
vi.setConfig({ testTimeout: 3 * PATIENCE_MS });

interface SentRequest {
  path: string;
  body: { id: string };
  answer: (status: number, body: object) => void;
}

const requests: SentRequest[] = [];
const paused = { state: "paused", paused: true, parked: true, step: 5, timeline: 0 } as StateOut;
const running = { ...paused, state: "running", paused: false, parked: false } as StateOut;

beforeEach(() => {
  requests.length = 0;
  useToasts.setState({ toasts: [] });
  useRun.getState().follow("r1");
  useRun.getState().setState(running);
  vi.stubGlobal("fetch", (path: string, init: RequestInit) => {
    return new Promise<Response>((resolve) => {
      requests.push({
        path,
        body: JSON.parse(String(init.body)),
        answer: (status, body) => resolve(new Response(JSON.stringify(body), { status })),
      });
    });
  });
});

afterEach(() => vi.unstubAllGlobals());

describe("runVerb", () => {
  it("is busy at once and until the server answers; the state is the server's", async () => {
    const outcome = runVerb("pause", {});
    expect(useBusy.getState().verbs.pause).toBeTypeOf("number");
    expect(useRun.getState().state?.state).toBe("running");
    requests[0]?.answer(200, paused);
    expect(await outcome).toEqual({ status: "done", reason: null });
    expect(useBusy.getState().verbs.pause).toBeUndefined();
    expect(useRun.getState().state?.state).toBe("paused");
  });

  it("does nothing when it is asked again while busy", async () => {
    const first = runVerb("pause", {});
    expect(await runVerb("pause", {})).toBe(null);
    expect(requests).toHaveLength(1);
    requests[0]?.answer(200, paused);
    await first;
  });

  it("takes each of several steps asked for while the first is on its way, one after the other", async () => {
    const outcomes = [1, 2, 3].map((n) => runVerb("step", { n }));
    for (const [index, n] of [1, 2, 3].entries()) {
      await vi.waitFor(() => expect(requests).toHaveLength(index + 1), PATIENCE_MS);
      expect(requests[index]?.body).toMatchObject({ n });
      requests[index]?.answer(200, paused);
    }
    expect(await Promise.all(outcomes)).toEqual(Array(3).fill({ status: "done", reason: null }));
    expect(useBusy.getState().verbs.step).toBeUndefined();
  });

  it("leaves out what was to follow a refused step", async () => {
    const [first, second] = [runVerb("back", { n: 1 }), runVerb("back", { n: 1 })];
    requests[0]?.answer(409, { error: "running", message: "The run is running; pause it first." });
    expect((await first)?.status).toBe("refused");
    expect(await second).toBe(null);
    expect(requests).toHaveLength(1);
  });

  it("shows a refusal with the way out", async () => {
    const outcome = runVerb("step", { n: 1 });
    requests[0]?.answer(409, { error: "running", message: "The run is running; pause it first." });
    expect((await outcome)?.status).toBe("refused");
    const toast = useToasts.getState().toasts[0];
    expect(toast).toMatchObject({
      kind: "refused",
      title: "Step refused.",
      text: "The run is running; pause it first.",
    });
    expect(toast?.action?.label).toBe("Pause");
  });

  it("waits for the stream when the effect takes longer", async () => {
    const outcome = runVerb("pause", {});
    const id = requests[0]?.body.id ?? "";
    const command = { id, seq: 1, command: "pause", status: "pending" } as CommandOut;
    requests[0]?.answer(202, command);
    await vi.waitFor(() => expect(useBusy.getState().verbs.pause).toBeTypeOf("number"), PATIENCE_MS);
    useRun.getState().putCommand({ ...command, status: "done" });
    expect((await outcome)?.status).toBe("done");
    expect(useToasts.getState().toasts).toEqual([]);
  });

  it("does not go back to an answer that the stream has overtaken", async () => {
    const outcome = runVerb("resume", {});
    useRun.getState().setState({ ...running, number: 9, step: 9 });
    requests[0]?.answer(200, { ...running, number: 6, step: 6 });
    await outcome;
    expect(useRun.getState().state?.step).toBe(9);
  });
});
