import { describe, expect, it } from "vitest";
import type { Outcome } from "../start/outlook/WhatIfs";
import { ordered } from "../table/sorting";
import { inQueueOrder, SORT_KEYS } from "./lists/queueColumns";
import { barAt, barBeside, firstAt, LANE_PX, placed, roomForName } from "./timeline/placing";
import { barOf, spanned, suitableSpan, ticks, timelineOf } from "./timeline/timeline";
import { isTrial, trialRow } from "./trials";
import type { QueueRow } from "./useQueue";
import { ahead, earliestWords, endWords, inTwoUnits, listedStart, needWords, sizeWords, startWords, summaryWords, unknownWords, until } from "./words";

const NOW = Date.parse("2026-11-23T12:00:00Z");
const at = (hours: number) => new Date(NOW + hours * 3_600_000).toISOString();

function run(name: string, part: Partial<QueueRow> = {}): QueueRow {
  return {
    namespace: "team", name, uid: name, owner: "ada", state: "running", reason: "", position: 0, priority: 0,
    members: 1, gpus: 8, gpuType: "h100", nodes: "g1", queuedAt: at(-2), startsAt: at(-1), endsAt: at(1),
    endsAtEarliest: "", expectedSeconds: 7_200, sure: true, behind: [], ...part,
  };
}

const RUNS = [
  run("first"),
  run("next", { state: "waiting", position: 1, startsAt: at(1), endsAt: at(3), endsAtEarliest: at(2), nodes: "g[1-2]" }),
  run("other", { gpuType: "a100", nodes: "g3", endsAt: "", sure: false }),
  run("last", { state: "waiting", position: 2, startsAt: "", endsAt: "", nodes: "" }),
];
const [FROM, UNTIL] = spanned(NOW, 6);

describe("timeline", () => {
  it("puts runs of a type into lanes that do not overlap", () => {
    const { groups, unknown } = timelineOf([...RUNS, run("beside")], "type", FROM, UNTIL);
    const names = groups.map(({ title, lanes }) => [title, lanes.map(({ bars }) => bars.map((bar) => bar.run.name))]);
    expect(names).toEqual([["a100", [["other"]]], ["h100", [["beside", "next"], ["first"]]]]);
    expect(unknown.map(({ name }) => name)).toEqual(["last"]);
  });

  it("shows runs and reservations on each of their nodes", () => {
    const { groups } = timelineOf(RUNS, "node", FROM, UNTIL);
    expect(groups.map(({ title, lanes }) => [title, lanes.flatMap(({ bars }) => bars.map((bar) => bar.run.name))])).toEqual([
      ["g1", ["first", "next"]], ["g2", ["next"]], ["g3", ["other"]],
    ]);
  });

  it("draws uncertain ends from the earlier to the later estimate, unknown ones to the edge", () => {
    const layout = placed(timelineOf(RUNS, "type", FROM, UNTIL), FROM, UNTIL, 600);
    const bars = new Map(layout.bars.map((bar) => [bar.run.name, bar]));
    expect(bars.get("next")).toMatchObject({ width: 200, sure: 100 });
    expect(bars.get("first")).toMatchObject({ x: 0, sure: 172, width: 172 });
    expect(bars.get("other")).toMatchObject({ x: 0, width: 600, until: Infinity });
  });

  it("finds bars by pointer and by keys", () => {
    const layout = placed(timelineOf(RUNS, "type", FROM, UNTIL), FROM, UNTIL, 600);
    const index = (name: string) => layout.bars.findIndex((bar) => bar.run.name === name);
    const first = layout.bars[index("first")]!;
    expect(barAt(layout, first.x + 3, first.y + LANE_PX / 2)).toBe(index("first"));
    expect(barAt(layout, 599, first.y + LANE_PX / 2)).toBe(-1);
    expect(barBeside(layout, index("first"), "ArrowRight")).toBe(index("next"));
    expect(barBeside(layout, index("first"), "ArrowUp")).toBe(index("other"));
    expect(barBeside(layout, -1, "ArrowDown")).toBe(0);
  });

  it("marks round times, at most one in 80 pixels", () => {
    const words = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
    const marks = ticks(FROM, UNTIL, 600, words, words);
    expect(marks.length).toBeGreaterThan(3);
    expect(marks.length).toBeLessThanOrEqual(8);
    expect(marks.every(({ at }) => at % 1_800_000 === 0)).toBe(true);
  });

  it("chooses a span that shows what comes next", () => {
    expect(suitableSpan(RUNS, NOW)).toBe(6);
    expect(suitableSpan([], NOW)).toBe(24);
    expect(suitableSpan([run("long", { endsAt: at(500) })], NOW)).toBe(168);
  });

  it("chooses a span that shows the start of the selected run", () => {
    const late = run("late", { state: "waiting", startsAt: at(40), endsAt: "" });
    expect(suitableSpan([...RUNS, late], NOW)).toBe(6);
    expect(suitableSpan([...RUNS, late], NOW, "team/late")).toBe(72);
    expect(suitableSpan(RUNS, NOW, "team/gone")).toBe(6);
  });
});

it("says expected times in words", () => {
  expect([90, 3_600, 7_140, 90_000].map(inTwoUnits)).toEqual(["2 min", "1 h", "1 h 59 min", "1 d 1 h"]);
  expect(ahead(at(0), NOW)).toBe("now");
  expect(startWords(RUNS[3]!, NOW)).toBe("its start is not known");
  expect(earliestWords(RUNS[1]!, NOW)).toMatch(/^they are expected to end in 1 h /);
  expect(earliestWords(RUNS[3]!, NOW)).toBe("it is not known when they end");
  expect(startWords(RUNS[1]!, NOW)).toMatch(/^expected to start in 1 h \(/);
  expect(listedStart(RUNS[1]!, NOW)).toBe("expected in 1 h");
  expect(listedStart({ ...RUNS[1]!, state: "dependent" }, NOW)).toBe("in 1 h at the earliest");
  expect(listedStart(RUNS[3]!, NOW)).toBe("");
  expect(endWords(RUNS[1]!, NOW)).toMatch(/^expected to end in 2 h .* at the earliest, in 3 h .* at the latest$/);
  expect(endWords(RUNS[2]!, NOW)).toBe("its end is not known");
  expect(endWords(run("service", { endsAt: "", expectedSeconds: 0 }), NOW)).toBe("it has no end");
});

describe("the table", () => {
  const rows = [run("soon", { endsAt: at(1) }), run("endless", { endsAt: "" }), run("second", { state: "waiting", position: 2, startsAt: "" }), run("first", { state: "waiting", position: 1, startsAt: at(4) })];
  const names = (found: readonly QueueRow[]) => found.map(({ name }) => name);

  it("begins with the waiting runs in their order, and ends with runs without an end", () => {
    expect(names(inQueueOrder(rows))).toEqual(["first", "second", "soon", "endless"]);
  });

  it("has times that are not known last", () => {
    expect(names(ordered(rows, { by: "end", descending: false }, SORT_KEYS)).at(-1)).toBe("endless");
    expect(names(ordered(rows, { by: "start", descending: false }, SORT_KEYS)).at(-1)).toBe("second");
    expect(names(ordered(rows, { by: "place", descending: false }, SORT_KEYS)).slice(0, 2)).toEqual(["first", "second"]);
  });
});

it("counts runs and says how large one is", () => {
  expect(summaryWords(RUNS, [])).toBe("2 runs wait, 2 runs have nodes.");
  expect(summaryWords([RUNS[0]!], [RUNS[1]!])).toBe("0 runs wait, 1 run has nodes, 1 run waits for others.");
  expect(sizeWords(run("small", { members: 4, gpus: 0 }))).toBe("4 members");
  expect(until(at(0), NOW)).toBe("now");
});

describe("a what-if", () => {
  const start = { phase: "Queued", reason: "", message: "", expectedAt: "2026-11-21T12:00:00Z", place: { expectedSeconds: 3_600, position: 3 } };
  const found = { namespace: "vision", starts: false, nodes: "", domains: {}, findings: [], start } as unknown as Outcome["found"];
  const now = Date.parse("2026-11-21T10:00:00Z");

  it("is a bar from its expected start, for as long as it is expected to take", () => {
    const row = trialRow({ members: 4, gpuType: "h100", found }, 8, now);
    expect([row.startsAt, row.endsAt, row.gpus, row.position]).toEqual(["2026-11-21T12:00:00Z", "2026-11-21T13:00:00.000Z", 32, 3]);
    expect(isTrial(row)).toBe(true);
    expect(barOf(row)?.until).toBe(Date.parse("2026-11-21T13:00:00Z"));
  });

  it("begins now on its nodes if it would start now, and has no bar if its start is not known", () => {
    const starts = trialRow({ members: 1, gpuType: "", found: { ...found, starts: true, nodes: "gpu-[1-2]" } }, 1, now);
    expect([starts.startsAt, starts.nodes]).toEqual(["2026-11-21T10:00:00.000Z", "gpu-[1-2]"]);
    const { expectedAt, ...unknown } = start;
    expect(barOf(trialRow({ members: 1, gpuType: "", found: { ...found, start: unknown } as Outcome["found"] }, 1, now))).toBeNull();
  });
});

it("blames an absent controller, not the runs that have nodes", () => {
  expect(needWords(true, false)).toBe("Nothing: it starts in the next cycle.");
  expect(needWords(true, true)).toContain("A controller has to be at work again.");
  expect(unknownWords(false)).toContain("has no time limit");
  expect(unknownWords(true)).toBe("No start is known while no controller is at work.");
});

it("finds the first row of a view among thousands", () => {
  const rows = Array.from({ length: 7_500 }, (_, index) => ({ y: 24 + index * 22 }));
  expect([firstAt(rows, 0), firstAt(rows, 25), firstAt(rows, 24 + 22 * 7_499), firstAt(rows, 1e9)]).toEqual([0, 1, 7_499, 7_500]);
});

it("gives every node a row, however many there are", () => {
  expect(timelineOf([run("wide", { nodes: "gpu-[00001-07500]" })], "node", FROM, UNTIL).groups).toHaveLength(7_500);
});

it("keeps names of runs off the line of the present time", () => {
  expect(roomForName({ x: 100, width: 400 }, 150)).toEqual({ x: 156, width: 340 });
  expect(roomForName({ x: 100, width: 60 }, 150)).toEqual({ x: 106, width: 50 });
  expect(roomForName({ x: 200, width: 400 }, 150)).toEqual({ x: 206, width: 390 });
});
