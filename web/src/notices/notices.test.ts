import { describe, expect, it } from "vitest";
import type { Row } from "../runs/data/rows";
import { isWatching, noticesOf, NOTHING_WANTED, restartsBetween, streamsFor, wantedIn, withAll, withoutRun, withRun, type Wanted } from "./notices";

const NOON = Date.parse("2026-11-23T12:00:00Z");
const BEFORE = withAll(NOTHING_WANTED, true, NOON);
const bert = { namespace: "vision", name: "bert", isMine: true, at: NOON };

function run(name: string, row: Partial<Row> = {}): Row {
  return { uid: `u-${name}`, name, namespace: "vision", owner: "ada", phase: "Succeeded", finishedAt: "2026-11-23T12:05:00Z", message: "", reason: "", ...row } as Row;
}

const rowsOf = (...runs: Row[]) => new Map(runs.map((each) => [each.uid, each]));
const titles = (wanted: Wanted, ...runs: Row[]) => noticesOf(wanted, "ada", rowsOf(...runs), NOON).notices.map(({ title }) => title);

describe("notices", () => {
  it("say what happened, in the server's words", () => {
    const failed = run("bert", { phase: "Failed", message: "member 3: exit code 1" });
    const [notice] = noticesOf(BEFORE, "ada", rowsOf(failed), NOON).notices;
    expect(notice).toMatchObject({ title: "bert failed", body: "Member 3: exit code 1.\nTeam vision", to: "/runs/vision/bert?uid=u-bert" });
    expect(titles(BEFORE, run("gpt"), run("vit", { phase: "Stopped" }))).toEqual(["gpt succeeded", "vit was stopped"]);
  });

  it("come once, also if another tab takes over, and again after a run was resumed", () => {
    const { wanted } = noticesOf(BEFORE, "ada", rowsOf(run("bert")), NOON);
    const stored = wantedIn(JSON.stringify(wanted));
    expect(noticesOf(stored, "ada", rowsOf(run("bert")), NOON)).toEqual({ notices: [], wanted: stored });
    expect(titles(stored, run("bert", { phase: "Running", finishedAt: "" }))).toEqual([]);
    expect(titles(stored, run("bert", { finishedAt: "2026-11-23T12:09:00Z" }))).toEqual(["bert succeeded"]);
  });

  it("do not tell that a run stopped if it was asked to restart, and tell its end afterwards", () => {
    const wanted = withRun(BEFORE, "u-bert", bert);
    const found = noticesOf(wanted, "ada", rowsOf(run("bert", { phase: "Stopped", reason: "RestartedByUser" })), NOON);
    expect(found).toEqual({ notices: [], wanted });
    expect(titles(wanted, run("bert", { finishedAt: "2026-11-23T12:09:00Z" }))).toEqual(["bert succeeded"]);
  });

  it("leave out what ended before they were wanted, and other people's runs", () => {
    expect(titles(BEFORE, run("old", { finishedAt: "2026-11-23T11:59:59Z" }), run("theirs", { owner: "grace" }))).toEqual([]);
    expect(titles(NOTHING_WANTED, run("bert"))).toEqual([]);
  });

  it("count many ends at once in one notice", () => {
    const ended = ["a", "b", "c", "d", "e"].map((name) => run(name, { phase: name > "c" ? "Failed" : "Succeeded" }));
    expect(noticesOf(BEFORE, "ada", rowsOf(...ended), NOON).notices).toMatchObject([{ title: "5 runs ended", body: "3 succeeded, 2 failed\nFailed: d, e", to: "/runs" }]);
  });

  it("tell a single run once, whoever owns it, and then forget it", () => {
    const wanted = withRun(NOTHING_WANTED, "u-bert", { ...bert, isMine: false });
    const found = noticesOf(wanted, "grace", rowsOf(run("bert")), NOON);
    expect(found.notices.map(({ title }) => title)).toEqual(["bert succeeded"]);
    expect(isWatching(found.wanted)).toBe(false);
  });

  it("tell that a run is gone, but not in the moment after its start", () => {
    const wanted = withRun(NOTHING_WANTED, "u-bert", bert);
    expect(noticesOf(wanted, "ada", rowsOf(), NOON + 5_000).notices).toEqual([]);
    expect(noticesOf(wanted, "ada", rowsOf(), NOON + 90_000).notices).toMatchObject([{ title: "bert was removed", to: "/runs/vision/u-bert" }]);
  });

  it("remember a bounded number of ends, and tell none of those that they forgot", () => {
    const at = (number: number) => new Date(NOON + (1 + number) * 1_000).toISOString();
    const ended = Array.from({ length: 250 }, (_, number) => run(`r${number}`, { finishedAt: at(number) }));
    const { wanted } = noticesOf(BEFORE, "ada", rowsOf(...ended), NOON);
    expect(wanted.told).toHaveLength(200);
    expect(noticesOf(wanted, "ada", rowsOf(...ended), NOON).notices).toEqual([]);
  });
});

describe("notices of restarts", () => {
  const running = { phase: "Running", finishedAt: "", queuedAt: "2026-11-23T12:01:00Z", restarts: 0 } as const;
  const told = (wanted: Wanted, before: Partial<Row>, after: Partial<Row>) =>
    restartsBetween(wanted, "ada", rowsOf(run("bert", { ...running, ...before })), rowsOf(run("bert", { ...running, ...after }))).map(({ title, body }) => `${title}: ${body}`);

  it("say who caused it, also if the stream left out the phase in between", () => {
    const failed = { phase: "Restarting", reason: "ProgramFailed", message: "member 1: exit code 3", restarts: 2 } as const;
    expect(told(BEFORE, { restarts: 1 }, failed)).toEqual(["bert restarts: Restart 2 that the program caused. Member 1: exit code 3.\nTeam vision"]);
    expect(told(BEFORE, { restarts: 1 }, { restarts: 2 })).toEqual(["bert restarts: Restart 2 that the program caused.\nTeam vision"]);
    expect(told(BEFORE, {}, { phase: "Queued", interruptions: 1 })).toEqual(["bert restarts: Interruption 1, without a fault of the program.\nTeam vision"]);
    const asked = ["bert restarts: Somebody asked for it.\nTeam vision"];
    expect(told(BEFORE, {}, { phase: "Queued", queuedAt: "2026-11-23T12:09:00Z" })).toEqual(asked);
    expect(told(BEFORE, {}, { phase: "Stopped", reason: "RestartedByUser" })).toEqual(asked);
  });

  it("come once, and neither for other changes nor for a run that is resumed", () => {
    const again = { phase: "Queued", queuedAt: "2026-11-23T12:09:00Z" } as const;
    const stopped = { phase: "Stopped", finishedAt: "2026-11-23T12:08:00Z", restarts: 3 } as const;
    expect(told(BEFORE, { restarts: 1 }, { restarts: 1 })).toEqual([]);
    expect(told(BEFORE, { ...stopped, reason: "RestartedByUser" }, again)).toEqual([]);
    expect(told(BEFORE, stopped, again)).toEqual([]);
    expect(told(BEFORE, { phase: "Queued" }, again)).toEqual([]);
    expect(told(BEFORE, { restarts: 1 }, { phase: "Failed", restarts: 2 })).toEqual([]);
  });

  it("are only those of runs that the person wants to be told, and count many at once", () => {
    const others = rowsOf(run("bert", { ...running, owner: "grace" }));
    const restarted = rowsOf(run("bert", { ...running, owner: "grace", restarts: 1 }));
    expect(restartsBetween(BEFORE, "ada", others, restarted)).toEqual([]);
    expect(restartsBetween(withRun(NOTHING_WANTED, "u-bert", bert), "ada", others, restarted)).toHaveLength(1);
    expect(told(NOTHING_WANTED, {}, { restarts: 1 })).toEqual([]);
    const all = (restarts: number) => rowsOf(...["a", "b", "c", "d"].map((name) => run(name, { ...running, restarts })));
    expect(restartsBetween(BEFORE, "ada", all(0), all(1))).toMatchObject([{ title: "4 runs restarted", body: "a, b, c …", to: "/runs" }]);
  });
});

it("follows one's own list, and others' single runs by their UIDs", () => {
  expect(streamsFor(BEFORE)).toEqual(["owner=%40me"]);
  const both = withRun(withRun(NOTHING_WANTED, "u-1", bert), "u-2", { ...bert, isMine: false });
  expect(streamsFor(both)).toEqual(["owner=%40me", "uid=u-2"]);
  expect(streamsFor(withoutRun(both, "u-1"))).toEqual(["uid=u-2"]);
});

it("wants nothing if what is stored makes no sense", () => {
  for (const stored of [null, "", "[]", "{}", '{"all":true,"since":"","runs":{"u":{}},"told":[]}']) expect(wantedIn(stored)).toBe(NOTHING_WANTED);
});
