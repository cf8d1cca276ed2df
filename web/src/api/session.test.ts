import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { onDoubtfulSession } from "./session";
import { steadyFetch } from "./steady";

const doubted = vi.fn();

beforeEach(() => {
  doubted.mockReset();
  onDoubtfulSession(doubted);
});
afterEach(() => void vi.unstubAllGlobals());

it.each([
  ["/v1/runs/default/a/logs/window?rank=0", "GET", 401, 1],
  ["/v1/code/uploads", "PUT", 401, 1],
  ["/v1/whoami", "GET", 401, 0],
  ["/v1/runs", "GET", 403, 0],
])("doubts the session at the right answers: %s %s %i", async (path, method, status, times) => {
  vi.stubGlobal("fetch", async () => new Response(null, { status }));
  await steadyFetch(new Request(`http://kaji.test${path}`, { method }));
  expect(doubted).toHaveBeenCalledTimes(times);
});
