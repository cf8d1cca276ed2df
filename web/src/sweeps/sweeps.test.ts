import { describe, expect, it } from "vitest";
import { bestCommand, csvOf, tableCommand } from "./commands";
import { conditionsOf, fits, textOf, withConditions } from "./filter";
import { lineAt, linesOf } from "./plots/parallel";
import { numberAt, placeOn, rampColour, scaleOf, ticksOn } from "./plots/scales";
import { pointAt, pointBeside, pointsOf } from "./plots/scatter";
import { bestFirst, columnsOf, failuresOf, numberWord, trialOf, valuesOf } from "./trials/trials";
import { axisNames, isUsual, parametersOf, qualities, sorted, viewOf } from "./view";

const trial = (index: number, result: unknown, more = {}) => trialOf({ index, state: "Succeeded", result, ...more });
const TRIALS = [
  trial(0, { lr: 0.1, optimizer: "sgd", loss: 0.5 }),
  trial(1, { lr: 0.001, optimizer: "lion", loss: 0.25 }),
  trial(2, { lr: 0.01, optimizer: "lion", loss: "NaN" }),
  trial(3, null, { state: "Failed", reason: "ProgramFailed", message: "exit code 1: nan at step 17" }),
  trial(4, null, { state: "Failed", reason: "ProgramFailed", message: "exit code 1: nan at step 9" }),
  trial(5, null, { state: "Failed", reason: "OutOfMemory", message: "" }),
];

describe("values of a result", () => {
  it.each([
    [{ lr: "1e-3", ok: true, tags: ["a"], none: null }, { lr: 0.001, ok: "true", tags: '["a"]' }],
    [0.25, { result: 0.25 }],
    ["well", { result: "well" }],
    ['{"loss": NaN, "far": [-Infinity], "name": "NaN"}', { loss: "NaN", far: '["-Infinity"]', name: "NaN" }],
    ['{"cut', { result: '{"cut' }],
    [null, {}],
  ])("%j are %j", (result, expected) => expect(Object.fromEntries(valuesOf(result))).toEqual(expected));

  it("make columns, which are numbers also where one is not a number", () => {
    expect(columnsOf(TRIALS)).toEqual([
      { name: "lr", isNumber: true },
      { name: "optimizer", isNumber: false },
      { name: "loss", isNumber: true },
    ]);
  });

  it("are written short", () => {
    expect([0, 3, 0.1234567, 0.00012, -2.5e9, 1e7, Infinity].map(numberWord)).toEqual(["0", "3", "0.12346", "1.2e-4", "-2.5e9", "1e7", "Infinity"]);
  });
});

it("puts the best first, and failures of one kind together", () => {
  expect(bestFirst(TRIALS, "loss", "lowest").map(({ index }) => index)).toEqual([1, 0]);
  expect(bestFirst(TRIALS, "lr", "highest").map(({ index }) => index)).toEqual([0, 2, 1]);
  expect(failuresOf(TRIALS).map(({ why, trials }) => [why, trials.length])).toEqual([
    ["ProgramFailed: exit code 1: nan at step 17", 2],
    ["OutOfMemory", 1],
  ]);
  expect([...qualities(bestFirst(TRIALS, "lr", "highest"), "lr")]).toEqual([[0, 1], [2, 0.5], [1, 0]]);
});

describe("a scale", () => {
  it("is logarithmic if most values would stick together at its end", () => {
    expect(scaleOf([1e-5, 1e-4, 1e-3, 1e-2, 1e-1])?.kind).toBe("log");
    expect(scaleOf(Array.from({ length: 1000 }, (_, index) => index + 1))?.kind).toBe("linear");
    expect(scaleOf([0, 1e-5, 1])?.kind).toBe("linear");
    expect(scaleOf(["b10", "b9", undefined])).toEqual({ kind: "words", words: ["b9", "b10"] });
    expect(scaleOf(Array.from({ length: 100 }, (_, index) => `name ${index}`))).toBeNull();
    expect(scaleOf([undefined])).toBeNull();
  });

  it("places values and finds them again", () => {
    const scale = { kind: "log", min: 0.001, max: 0.1 } as const;
    expect(placeOn(scale, 0.01)).toBeCloseTo(0.5);
    expect(numberAt(scale, 0.5)).toBeCloseTo(0.01);
    expect([placeOn(scale, "NaN"), placeOn(scale, 0), placeOn(scale, undefined)]).toEqual([null, null, null]);
    expect(placeOn({ kind: "linear", min: 2, max: 2 }, 2)).toBe(0.5);
    expect(placeOn({ kind: "words", words: ["a", "b", "c"] }, "b")).toBe(0.5);
  });

  it("has round marks between its ends", () => {
    expect(ticksOn({ kind: "linear", min: 0.13, max: 1.02 }, 4).map(({ word }) => word)).toEqual(["0.13", "0.5", "1.02"]);
    expect(ticksOn({ kind: "log", min: 2e-5, max: 0.05 }, 4).map(({ word }) => word)).toEqual(["2e-5", "1e-4", "0.001", "0.01", "0.05"]);
    expect(ticksOn(scaleOf([6, 12, 48])!, 2).map(({ word }) => word)).toEqual(["6", "12", "48"]);
    expect(ticksOn({ kind: "linear", min: 3, max: 3 }, 4)).toEqual([{ at: 0.5, word: "3" }]);
  });

  it("has colours between its ends", () => {
    expect([rampColour(0, false), rampColour(1, true), rampColour(0.25, false)]).toEqual(["rgb(197 206 214)", "rgb(190 255 249)", "rgb(145 190 191)"]);
  });
});

describe("the filter", () => {
  it.each([
    ["lr<0.05 optimizer=lion", [1, 2]],
    ["optimizer=sgd|adam", [0]],
    ["lr>=0.01 lr<=0.1", [0, 2]],
    ["loss<9", [0, 1]],
    ["state=failed memory", [5]],
    ["LION", [1, 2]],
    ["member=3|4", [3, 4]],
    ['"step 9"', [4]],
    ["lr=0.1", [0]],
    ["", [0, 1, 2, 3, 4, 5]],
  ])("%s finds %j", (text, expected) => {
    const conditions = conditionsOf(text);
    expect(TRIALS.filter((each) => fits(each, conditions)).map(({ index }) => index)).toEqual(expected);
    expect(conditionsOf(textOf(conditions))).toEqual(conditions);
  });

  it("takes a new range of an axis in place of the old one", () => {
    expect(withConditions('good "my loss">1 lr<2', "my loss", [{ name: "my loss", sign: "<", value: "3" }])).toBe('good lr<2 "my loss"<3');
  });
});

it("finds the line of parallel coordinates under the pointer", () => {
  const axes = ["lr", "loss"].map((name) => ({ name, scale: scaleOf(TRIALS.map(({ values }) => values.get(name)))! }));
  const lines = linesOf(TRIALS, axes, 300, 200);
  const [left = 0, right = 0] = lines.xs;
  expect(lineAt(lines, (left + right) / 2, (lines.ys[0]![0]! + lines.ys[0]![1]!) / 2)).toBe(0);
  expect(lineAt(lines, right, lines.ys[1]![1]!)).toBe(1);
  expect(lineAt(lines, right + 30, lines.bottom)).toBe(-1);
});

it("finds the point under the pointer, and the next one by arrow keys", () => {
  const axis = (name: string) => ({ name, scale: scaleOf(TRIALS.map(({ values }) => values.get(name)))! });
  const points = pointsOf(TRIALS, axis("lr"), axis("loss"), 300, 200);
  expect(pointAt(points, points.xs[1]! + 3, points.ys[1]! - 3)).toBe(1);
  expect(pointAt(points, 150, 5)).toBe(-1);
  expect(pointBeside(points, -1, "ArrowRight")).toBe(1);
  expect(pointBeside(points, 1, "ArrowRight")).toBe(0);
  expect(pointBeside(points, 0, "ArrowRight")).toBe(0);
  expect(pointBeside(points, 0, "ArrowDown")).toBe(1);
});

describe("the table", () => {
  it("sorts by any column; members without a value come last", () => {
    expect(sorted(TRIALS, "-:lr").map(({ index }) => index)).toEqual([0, 2, 1, 3, 4, 5]);
    expect(sorted(TRIALS, ":optimizer").map(({ index }) => index)).toEqual([1, 2, 0, 3, 4, 5]);
    expect(sorted(TRIALS, "-Member")[0]?.index).toBe(5);
  });

  it("has eight columns at most until others are chosen", () => {
    const columns = ["a", "b", "c", "d", "e", "f", "g"].map((name) => ({ name, isNumber: true }));
    const all = ["Member", "State", ...columns.map(({ name }) => `:${name}`), "Time", "Node", "Why"];
    expect(all.filter(isUsual(all.slice(2, 9), "all", true))).toEqual(["Member", "State", ":a", ":b", ":c", ":d", "Time", "Why"]);
    expect(all.filter(isUsual([], "best", true))).toEqual(["Member", "State", "Time", "Why"]);
    expect(all.filter(isUsual(all.slice(2, 9), "failed", true))).toEqual(["Member", "State", "Time", "Node", "Why"]);
    expect(axisNames(TRIALS, [...columns, ...columnsOf(TRIALS)], "loss", 3)).toEqual(["lr", "optimizer", "loss"]);
  });

  it("stands in the address", () => {
    const view = viewOf(new URLSearchParams("part=best&most=20&by=loss&order=up&sort=-:lr&member=7"));
    expect(view).toEqual({ part: "best", most: 20, by: "loss", order: "", text: "", sort: "-:lr", x: "", y: "", member: 7 });
    expect(`${parametersOf(view)}`).toBe("part=best&most=20&by=loss&sort=-%3Alr&member=7");
    expect(`${parametersOf(viewOf(new URLSearchParams("part=x&member=x")))}`).toBe("");
  });

  it("is copied as a command and as CSV", () => {
    expect(bestCommand({ namespace: "team", name: "grid" }, 10, "my loss", "lowest")).toBe("kaji results -N team grid --best 10 --by 'my loss' --order lowest");
    expect(tableCommand({ namespace: "team", name: "grid" }, "Failed")).toBe("kaji results -N team grid --state failed");
    const lines = csvOf([trial(1, { loss: -1, note: '=1+1, "x"' })], [{ name: "loss", isNumber: true }, { name: "note", isNumber: false }]).split("\n");
    expect(lines[0]).toBe("Member,State,Seconds,Exit code,Restarts,Peak bytes,Node,Why,loss,note");
    expect(lines[1]).toBe(`1,Succeeded,,,0,,,,-1,"'=1+1, ""x"""`);
  });
});
