import { describe, expect, it } from "vitest";
import type { Row } from "../runs/data/rows";
import { applies, atWork, failures, lossOf, performEach, refused, resumable, summary, type Outcome } from "./verbs";

const NOW = Date.parse("2026-11-23T12:00:00Z");

function run(name: string, row: Partial<Row> = {}): Row {
  return { name, uid: name, phase: "Running", gpus: 0, deleting: false, startedAt: "2026-11-23T10:00:00Z", ...row } as Row;
}

it.each([
  ["stop", "Running", true],
  ["stop", "Queued", true],
  ["stop", "Failed", false],
  ["kill", "Running", true],
  ["kill", "Failed", false],
  ["restart", "Running", true],
  ["restart", "Stopped", false],
  ["resume", "Failed", true],
  ["resume", "Restarting", false],
  ["delete", "Failed", true],
  ["delete", "Running", true],
] as const)("%s of a run that is %s: %j", (verb, phase, expected) => {
  expect(applies(verb, run("a", { phase }))).toBe(expected);
  expect(applies(verb, run("a", { phase, deleting: true }))).toBe(false);
});

describe("what is lost", () => {
  it("names the last checkpoint", () => {
    const checkpoints = new Map([
      ["a", "2026-11-23T11:50:00Z"],
      ["b", ""],
    ]);
    expect(lossOf(run("a", { gpus: 8 }), checkpoints, NOW)).toBe("8 GPUs, started 2 h ago, last checkpoint 10 min ago");
    expect(lossOf(run("a", { gpus: 1, startedAt: "" }), new Map(), NOW)).toBe("1 GPU");
    expect(lossOf(run("b"), checkpoints, NOW)).toBe("started 2 h ago, no checkpoint known");
    expect(lossOf(run("c"), checkpoints, NOW)).toBe("started 2 h ago");
  });

  it("is nothing of runs that have ended or never started", () => {
    expect(atWork([run("a"), run("b", { startedAt: "" }), run("c", { phase: "Failed" })]).map(({ name }) => name)).toEqual(["a"]);
  });
});

it("tells the outcome of each run", async () => {
  const outcomes: Outcome[] = [];
  const act = async ({ name }: Row) => {
    if (name === "b") throw new Error("no right");
  };
  await performEach([run("a"), run("b"), run("c")], act, (outcome) => outcomes.push(outcome));
  expect(outcomes.filter(({ error }) => error).map(({ run: { name }, error }) => [name, error?.message])).toEqual([["b", "no right"]]);
  expect(summary("stop", outcomes)).toBe("2 of 3 runs stopped.");
  expect(summary("delete", outcomes.slice(0, 1))).toBe("1 run deleted.");
});

it("tells each reason for which runs could not be changed once", () => {
  const outcomes: Outcome[] = [
    ...Array.from({ length: 40 }, (_, index) => ({ run: run(`bert-${index}`), error: new Error(`bert-${index} is being deleted`) })),
    { run: run("a"), error: null },
    { run: run("b"), error: new Error("there is no run 'b' in namespace vision") },
    { run: run("c"), error: new TypeError("network error") },
  ];
  expect(failures(outcomes)).toEqual([
    { names: "bert-0, bert-1, bert-2, bert-3, bert-4 and 35 more", why: "… is being deleted" },
    { names: "b", why: "there is no run 'b' in namespace vision" },
    { names: "c", why: "The server does not answer" },
  ]);
});

it("takes back a stop of the runs that have stopped by now", () => {
  const outcomes = ["a", "b", "c"].map((name) => ({ run: run(name), error: name === "c" ? new Error("no right") : null }));
  const now = [run("a", { phase: "Stopped" }), run("b"), run("c", { phase: "Failed" }), run("d", { phase: "Stopped" })];
  expect(resumable("stop", outcomes, now).map(({ name }) => name)).toEqual(["a"]);
  expect(resumable("delete", outcomes, now)).toEqual([]);
});

it("tries those again that are still as they were", () => {
  const outcomes = ["a", "b", "c", "d"].map((name) => ({ run: run(name), error: name === "a" ? null : new Error("no answer") }));
  const now = [run("a", { phase: "Stopped" }), run("b"), run("c", { phase: "Failed" })];
  expect(refused("stop", outcomes, now).map(({ name }) => name)).toEqual(["b"]);
});
