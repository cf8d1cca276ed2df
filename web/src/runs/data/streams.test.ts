import { expect, it, vi } from "vitest";
import type { followChanges } from "../../api/changes";
import { followRuns, type Followed } from "./streams";

vi.mock("../../api/signIn", () => ({ whoAmI: async () => null }));

it("shares one stream among all parts of the page that show the same runs, and closes it after the last", () => {
  const close = vi.fn();
  const open = vi.fn<typeof followChanges>(() => close);
  const seen: Followed[][] = [[], []];
  const end = seen.map((list) => followRuns("owner=%40me", (followed) => list.push(followed), open));
  expect(open).toHaveBeenCalledTimes(1);
  open.mock.calls[0]?.[1].snapshot(JSON.stringify({ items: [{ uid: "u-1" }] }));
  expect(seen.map((list) => list.at(-1)?.rows?.size)).toEqual([1, 1]);
  const late: Followed[] = [];
  end.push(followRuns("owner=%40me", (followed) => late.push(followed), open));
  expect(late.at(-1)?.rows?.size).toBe(1);
  end.slice(1).forEach((each) => each());
  expect(close).not.toHaveBeenCalled();
  end[0]?.();
  expect(close).toHaveBeenCalledTimes(1);
});
