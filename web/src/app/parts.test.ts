import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { fetched, mayReload, NotLoaded } from "./parts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("fetches code again that did not arrive", async () => {
  const load = vi.fn().mockRejectedValueOnce(new TypeError("Failed to fetch")).mockResolvedValueOnce("code");
  const code = fetched(load);
  await vi.runAllTimersAsync();
  expect(await code).toBe("code");
});

it("tells code that is gone from other errors", async () => {
  const code = fetched(() => Promise.reject(new TypeError("gone"))).catch((error: unknown) => error);
  await vi.runAllTimersAsync();
  expect(await code).toBeInstanceOf(NotLoaded);
});

it("loads the page again once, and not in a circle", () => {
  const held = new Map<string, string>();
  const notes = { getItem: (key: string) => held.get(key) ?? null, setItem: (key: string, value: string) => void held.set(key, value) };
  expect([100_000, 101_000, 129_000, 131_000].map((now) => mayReload(now, notes))).toEqual([true, false, false, true]);
});
