import { expect, it, vi } from "vitest";
import { findRun } from "./findRun";

const live = (name: string, uid: string) => ({ name, uid, status: { phase: "Running" } });
const record = (name: string, uid: string, removedAt = "2026-11-23T10:00:00Z", phase = "Failed") => ({
  ...live(name, uid),
  status: { phase },
  removedAt,
  attempts: [{ number: 1 }],
});

type Finding = [wanted: string, present: ReturnType<typeof live>[], past: ReturnType<typeof record>[]];

async function found(...[wanted, present, past]: Finding) {
  const run = await findRun(wanted, {
    live: async (name) => (present.find((each) => each.name.startsWith(name)) ?? null) as never,
    recorded: async (name) => (past.find((each) => [each.name, each.uid].includes(name)) ?? null) as never,
  });
  return run && [run.title, run.uid, run.isRemoved ? "removed" : run.status.phase];
}

it.each<[string, Finding, unknown]>([
  ["a run of the cluster", ["bert", [live("bert", "u-2")], [record("bert", "u-1")]], ["bert", "u-2", "Running"]],
  ["an older one of the same name", ["u-1", [live("bert", "u-2")], [record("bert", "u-1")]], ["bert", "u-1", "removed"]],
  ["a removed one, not one with a longer name", ["bert", [live("bert-2", "u-2")], [record("bert", "u-1")]], ["bert", "u-1", "removed"]],
  ["one by the beginning of its name", ["ber", [live("bert", "u-2")], []], ["bert", "u-2", "Running"]],
  ["one of the cluster by its UID", ["u-2", [live("bert", "u-2")], [record("bert", "u-2", "")]], ["bert", "u-2", "Running"]],
  ["one whose removal history does not know yet", ["bert", [], [record("bert", "u-2", "")]], ["bert", "u-2", "removed"]],
  ["nothing", ["bert", [], []], null],
])("finds %s", async (_, finding, expected) => expect(await found(...finding)).toEqual(expected));

it("does not ask the cluster for the UID of a removed run", async () => {
  const uid = "1afcde89-7665-46a0-b962-76c8da34232c";
  const live = vi.fn();
  const run = await findRun(uid, { live, recorded: async () => record("bert", uid) as never });
  expect([run?.title, live.mock.calls.length]).toEqual(["bert", 0]);
});

it("addresses a removed run by its UID, and says that it ended", async () => {
  const run = await findRun("bert", {
    live: async () => null,
    recorded: async () => record("bert", "u-1", "2026-11-23T10:00:00Z", "Running") as never,
  });
  expect(run?.name).toBe("u-1");
  expect(run?.status).toEqual({ phase: "Stopped", message: "deleted before its end" });
  expect(run?.pastAttempts.length).toBe(1);
});
