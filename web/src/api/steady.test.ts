import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { steadyFetch } from "./steady";

const fetched = vi.fn<typeof fetch>();
const broken = new TypeError("Failed to fetch");

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("fetch", fetched);
  fetched.mockReset().mockRejectedValue(broken);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("sends a question again if its connection breaks", async () => {
  fetched.mockRejectedValueOnce(broken).mockResolvedValueOnce(new Response("there"));
  const answer = steadyFetch(new Request("http://kaji.test/v1/runs"));
  await vi.runAllTimersAsync();
  expect([await (await answer).text(), fetched.mock.calls.length]).toEqual(["there", 2]);
});

it("gives up after a few times", async () => {
  const answer = steadyFetch("/v1/runs").catch((error: Error) => error.message);
  await vi.runAllTimersAsync();
  expect([await answer, fetched.mock.calls.length]).toEqual(["Failed to fetch", 3]);
});

it("sends once what changes something, and what nobody waits for", async () => {
  const abort = new AbortController();
  const changing = steadyFetch("/v1/runs", { method: "POST" }).catch((error: Error) => error.message);
  const ended = steadyFetch("/v1/nodes", { signal: abort.signal }).catch((error: Error) => error.message);
  abort.abort();
  await vi.runAllTimersAsync();
  expect([await changing, await ended, fetched.mock.calls.length]).toEqual(["Failed to fetch", "Failed to fetch", 2]);
});
