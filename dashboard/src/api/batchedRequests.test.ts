import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { BATCH_WINDOW_MS, batchRequests, MAX_BATCH, split } from "./batchedRequests";

const bytes = (text: string) => new TextEncoder().encode(text);

/** As the server puts answers together. */
function joined(...answers: [number, string][]): Response {
  const heads = answers.map(([status, body]) => ({ status, bytes: bytes(body).length }));
  return new Response(`${JSON.stringify(heads)}\n${answers.map(([, body]) => body).join("")}`);
}

/** A server that answers each question with its own words. */
function server() {
  const sent: string[] = [];
  const send = async (path: string): Promise<Response> => {
    sent.push(path);
    const [prefix, query] = path.split("together?");
    if (query === undefined) return new Response(path);
    const requests = new URLSearchParams(query).getAll("ask");
    return joined(
      ...requests.map((one): [number, string] => [one.startsWith("no/") ? 404 : 200, `${prefix}${one}`]),
    );
  };
  return { sent, send };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const soon = () => vi.advanceTimersByTimeAsync(BATCH_WINDOW_MS);

describe("batchRequests", () => {
  it("asks what comes at nearly the same moment in one request, and gives each its own answer", async () => {
    const { sent, send } = server();
    const gathered = batchRequests(send);
    const paths = ["forces?tensor=a%20b&x=1", "step_data/caf%C3%A9", "no/such"].map(
      (one) => `/runs/r/debug/${one}`,
    );
    const answers = [gathered(paths[0] ?? ""), gathered(paths[1] ?? "")];
    await vi.advanceTimersByTimeAsync(BATCH_WINDOW_MS - 1);
    answers.push(gathered(paths[2] ?? ""));
    expect(sent).toEqual([]);
    await soon();
    expect(sent).toHaveLength(1);
    const came = await Promise.all(answers);
    expect(came.map(({ status }) => status)).toEqual([200, 200, 404]);
    expect(await Promise.all(came.map((one) => one.text()))).toEqual(paths);
  });

  it("asks one alone as it is, what comes later in another request, and other places at once", async () => {
    const { sent, send } = server();
    const gathered = batchRequests(send);
    void gathered("/runs/r/debug/forces");
    await soon();
    void gathered("/runs/r/debug/batch");
    void gathered("/runs?limit=50");
    expect(sent).toEqual(["/runs/r/debug/forces", "/runs?limit=50"]);
    await soon();
    expect(sent.at(-1)).toBe("/runs/r/debug/batch");
  });

  it("keeps runs apart, and to as many at once as the server takes", async () => {
    const { sent, send } = server();
    const gathered = batchRequests(send);
    const many = Array.from({ length: MAX_BATCH + 2 }, (_, index) => gathered(`/runs/r/debug/k${index}`));
    const other = gathered("/runs/s/debug/k0");
    await soon();
    expect(sent.map((path) => path.split("ask=").length - 1)).toEqual([MAX_BATCH, 2, 0]);
    expect(await (await other).text()).toBe("/runs/s/debug/k0");
    expect(await (await many.at(-1))?.text()).toBe(`/runs/r/debug/k${MAX_BATCH + 1}`);
  });

  it("leaves out what is no longer wanted", async () => {
    const { sent, send } = server();
    const gathered = batchRequests(send);
    const closing = new AbortController();
    const given = gathered("/runs/r/debug/forces", closing.signal);
    const refused = expect(given).rejects.toThrow("closed");
    const kept = gathered("/runs/r/debug/batch");
    closing.abort(new Error("closed"));
    await soon();
    await refused;
    expect(await (await kept).text()).toBe("/runs/r/debug/batch");
    expect(sent).toEqual(["/runs/r/debug/batch"]);
  });

  it("tells every one of a refusal of the whole, and of a connection that broke", async () => {
    const refusing = batchRequests(
      async () => new Response(JSON.stringify({ error: "token" }), { status: 401 }),
    );
    const sent = [refusing("/runs/r/debug/a"), refusing("/runs/r/debug/b")];
    await soon();
    for (const one of await Promise.all(sent)) {
      expect(one.status).toBe(401);
      expect(await one.json()).toEqual({ error: "token" });
    }
    const broken = batchRequests(async () => {
      throw new TypeError("network");
    });
    const lost = ["/runs/r/debug/a", "/runs/r/debug/b"].map((path) =>
      expect(broken(path)).rejects.toThrow("network"),
    );
    await soon();
    await Promise.all(lost);
  });
});

describe("split", () => {
  const whole = async (text: string) => split(await new Response(text).arrayBuffer());

  it("gives every answer the bytes that are its own", async () => {
    const parts = split(await joined([200, "é\n"], [200, ""], [409, "{}"]).arrayBuffer());
    expect(await Promise.all(parts.map((one) => one.text()))).toEqual(["é\n", "", "{}"]);
    expect(parts.map(({ status }) => status)).toEqual([200, 200, 409]);
  });

  it.each([
    ["nothing", ""],
    ["no first line", "[]"],
    ["a body that breaks off", '[{"status":200,"bytes":3}]\nab'],
    ["more than it should hold", '[{"status":200,"bytes":1}]\nab'],
  ])("refuses %s", async (_, text) => {
    await expect(whole(text)).rejects.toThrow();
  });
});
