import { describe, expect, it } from "vitest";
import { compareAddress } from "./address";
import { curvesCsv, linesOf, placesOf, rowsCsv, scalesOf, valueAt } from "./lines";
import { commandsOf, compareParametersOf, compareViewOf, namesOf, type ComparedRun, type Comparison } from "./view";

const HOUR = "2026-11-23T10:00:00Z";
const at = (minute: number) => new Date(Date.parse(HOUR) + minute * 60_000).toISOString();
const run = (name: string, more: Partial<ComparedRun> = {}): ComparedRun => ({ name, namespace: "vision", uid: `${name}-uid-0`, owner: "ada", phase: "Running", createdAt: HOUR, startedAt: HOUR, isRemoved: false, commandLine: "", intervalSeconds: 60, ...more });
const points = (values: readonly (readonly [minute: number, value: number, attempt?: number])[]) => values.map(([minute, p50, attempt = 1]) => ({ at: at(minute), attempt, p50 }));
const figure = (name: string, lines: Comparison["figures"]) => ({ name, unit: "", description: "", lines }) as unknown as NonNullable<Comparison["figures"]>[number];

/** The second run starts five minutes later, and goes back from step 20 to step 10 in its second attempt. */
const COMPARISON: Comparison = {
  runs: [run("a"), run("b", { startedAt: at(5) })],
  missing: [],
  rows: [{ part: "asked", name: "--lr", values: ["1e-3", "=2"], differs: true }],
  figures: [
    figure("train.loss", [{ run: 0, points: points([[1, 4], [2, 0], [9, 2]]) }, { run: 1, points: points([[6, 5], [7, 3], [8, 4, 2]]) }] as never),
    figure("train.step", [{ run: 0, points: points([[1, 10], [2, 20], [9, 90]]) }, { run: 1, points: points([[6, 10], [7, 20], [8, 10, 2]]) }] as never),
  ],
};
const LOSS = COMPARISON.figures![0]!;
const VIEW = { x: "time", y: "linear", smooth: "" } as const;

describe("the address", () => {
  it("names at most four different runs", () => {
    const parameters = new URLSearchParams("run=v/a&run=v/a&run=b&run=v/b&run=v/c&run=v/d&run=v/e&x=step&all=true");
    const view = compareViewOf(parameters);
    expect(view).toEqual({ runs: ["v/a", "v/b", "v/c", "v/d"], all: true, x: "step", y: "linear", smooth: "" });
    expect(compareViewOf(compareParametersOf(view))).toEqual(view);
  });

  it("is made of runs as the search and the list know them", () => {
    expect(compareViewOf(new URLSearchParams(compareAddress([{ namespace: "vision", name: "舵" }]).split("?")[1])).runs).toEqual(["vision/舵"]);
  });
});

it("tells runs apart by as much of their names as that needs", () => {
  expect(namesOf([run("a"), run("b")])).toEqual(["a", "b"]);
  expect(namesOf([run("a"), run("a", { namespace: "speech" })])).toEqual(["vision/a", "speech/a"]);
  expect(namesOf([run("a", { uid: "11111111-2" }), run("a", { uid: "33333333-4" })])).toEqual(["vision/a (11111111)", "vision/a (33333333)"]);
});

it("has the commands that show the same; a removed run is named by its UID", () => {
  expect(commandsOf([run("a"), run("b", { isRemoved: true })], true)).toEqual([
    "kaji compare --all vision/a vision/b-uid-0",
    `kaji metrics -N vision --since ${HOUR} a train.`,
    `kaji metrics -N vision --since ${HOUR} b-uid-0 train.`,
  ]);
});

describe("the lines of a figure", () => {
  const scales = scalesOf(COMPARISON);

  it("begin with the start of their run, and have gaps", () => {
    const { columns, shape, placed } = linesOf(LOSS, scales, VIEW);
    expect(columns).toEqual([[60, 120, 121, 180, 540], [4, 0, null, undefined, 2], [5, 3, undefined, 4, undefined]]);
    expect(shape.lines).toEqual([{ colour: 0, hasLast: true }, { colour: 1, hasLast: true }]);
    expect([valueAt(placed[0]!, 180), valueAt(placed[1]!, 180), valueAt(placed[1]!, 540), valueAt(placed[1]!, null)]).toEqual([0, 4, null, 4]);
    expect(placesOf([linesOf(LOSS, scales, VIEW)])).toEqual([60, 540]);
  });

  it("are one for each attempt over steps", () => {
    const { columns, shape } = linesOf(LOSS, scales, { ...VIEW, x: "step" });
    expect(columns).toEqual([[10, 20, 90], [4, 0, 2], [5, 3, undefined], [4, undefined, undefined]]);
    expect(shape.lines.slice(1)).toEqual([{ colour: 1, isFaint: true }, { colour: 1, hasLast: true }]);
  });

  it("are means over the faint medians if they are smoothed", () => {
    const { columns, shape } = linesOf(LOSS, scales, { ...VIEW, smooth: "mean-5" });
    expect(columns[2]?.filter((value) => typeof value === "number")).toEqual([2, 2, 2]);
    expect(shape.lines[0]).toEqual({ colour: 0, isFaint: true });
  });

  it("leave out what a logarithmic axis has no place for", () => {
    const { isLog, notes } = linesOf(LOSS, scales, { ...VIEW, y: "log" });
    expect([isLog, notes.length]).toEqual([true, 1]);
  });
});

it("are tables for other programs", () => {
  const text = curvesCsv(COMPARISON, scalesOf(COMPARISON), { ...VIEW, x: "step" }).split("\n");
  expect(text[0]).toBe("run,name,unit,at,attempt,p50,seconds,step");
  expect(text[4]).toBe(`vision/b,train.loss,,${at(6)},1,5,60,10`);
  expect(rowsCsv(COMPARISON.runs, COMPARISON.rows)).toBe("part,name,a,b\nasked,'--lr,1e-3,'=2\n");
});
