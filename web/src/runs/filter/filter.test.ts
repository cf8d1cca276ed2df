import { describe, expect, it } from "vitest";
import { counted, filterOf, fits, parametersOf } from "./filter";
import type { Row } from "../data/rows";

function run(name: string, phase: Row["phase"], owner = "ada"): Row {
  return { name, namespace: "vision", owner, phase, message: "needs 2 h100" } as Row;
}

describe("the filter in the address", () => {
  it("comes back as it was", () => {
    const order = { by: "gpus", descending: true };
    const filter = { whose: "team" as const, text: "bert h100", phases: ["Queued" as const, "Failed" as const], order };
    expect(filterOf(parametersOf(filter))).toEqual(filter);
  });

  it.each([
    ["", "team"],
    ["text=a", "all"],
    ["whose=mine", "mine"],
    ["whose=all", "all"],
    ["whose=x", "all"],
  ])("%j shows the runs of: %s", (address, expected) => expect(filterOf(new URLSearchParams(address), () => "team").whose).toBe(expected));

  it("says whose runs it shows, unless they are all of one's own", () => {
    const filter = { whose: "mine" as const, text: "", phases: [], order: null };
    expect(`${parametersOf(filter)}`).toBe("");
    expect(`${parametersOf({ ...filter, text: "a" })}`).toBe("whose=mine&text=a");
    expect(`${parametersOf({ ...filter, whose: "all" })}`).toBe("whose=all");
  });

  it("leaves out what makes no sense", () => {
    expect(filterOf(new URLSearchParams("whose=x&phase=Nonsense,Failed"))).toEqual({
      whose: "all",
      text: "",
      phases: ["Failed"],
      order: null,
    });
  });
});

describe("a run fits", () => {
  const all = { whose: "all" as const, text: "", phases: [] };
  it.each([
    ["", true],
    ["BERT", true],
    ["bert ada", true],
    ["h100 queued", true],
    ["bert grace", false],
  ])("the text %j: %j", (text, expected) => expect(fits(run("bert", "Queued"), { ...all, text })).toBe(expected));

  it.each([
    ["stage=final pytorch", true],
    ["stage=draft", false],
    ["seed 学習率", true],
  ])("the words in image, labels and note %j: %j", (text, expected) => {
    const labelled = { ...run("bert", "Queued"), image: "nvcr.io/PyTorch", labels: { stage: "final" }, note: "学習率 halved,\nseed 3" };
    expect(fits(labelled, { ...all, text })).toBe(expected);
  });

  it("only in the wanted phases", () => {
    expect(fits(run("bert", "Queued"), { ...all, phases: ["Running"] })).toBe(false);
    expect(fits({ ...run("bert", "Running"), finding: "stuck" }, { ...all, text: "stuck" })).toBe(true);
  });
});

it("counts runs by phase", () => {
  expect([...counted([run("a", "Queued"), run("b", "Queued"), run("c", "Failed")])]).toEqual([
    ["Queued", 2],
    ["Failed", 1],
  ]);
});
