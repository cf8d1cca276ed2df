import { describe, expect, it } from "vitest";
import type { Row } from "../runs/data/rows";
import { commandsOf, fitting, NOTHING, openRun, parsed } from "./commands";

const run = (name: string, phase: Row["phase"] = "Running") =>
  ({ uid: name, name, namespace: "vision", owner: "ada", phase, deleting: false }) as Row;
const PAGES = [
  { to: "/runs", word: "Runs" },
  { to: "/queue", word: "Queue" },
];
const found = { runs: [run("bert"), run("old", "Failed")], nodes: [{ name: "cpu-1", state: "ready" as const, holders: ["vision/bert-gpu"], owner: "ada" }, { name: "gpu-1", state: "ready" as const, holders: [], owner: "ada" }], teams: [{ name: "vision" }] };
const words = (text: string, here: Row | null = null, may = true) => commandsOf(text, PAGES, found, here, () => may).map((each) => `${each.group}: ${each.words}`);

it.each([
  ["stop BERT", { verb: "stop", words: "bert" }],
  ["stop", { verb: "stop", words: "" }],
  [" Bert  large ", { verb: null, words: "bert  large" }],
])("reads %j", (text, expected) => expect(parsed(text)).toEqual(expected));

it("knows the run whose page is open", () => {
  expect(openRun("/runs/vision/%E8%88%B5")).toEqual({ namespace: "vision", name: "舵" });
  expect(openRun("/runs")).toBeNull();
});

describe("the search offers", () => {
  it("the pages to somebody who wrote nothing", () => {
    expect(commandsOf("", PAGES, NOTHING, null, () => true).map((each) => each.words)).toEqual(["Runs", "Queue"]);
  });

  it("saved views, and says of what", () => {
    const saved = { table: "runs" as const, view: { name: "Failed this week", parameters: "phase=Failed", columns: null } };
    const [first] = commandsOf("failed", PAGES, NOTHING, null, () => true, [saved]);
    expect([first?.group, first?.words, first?.hint, first?.act]).toEqual(["Views", "Failed this week", "Runs", saved]);
    expect(commandsOf("bert", PAGES, NOTHING, null, () => true, [saved])).toEqual([]);
  });

  it("what the server found, and people and teams of that name", () => {
    expect(words("ada")).toEqual(["Runs: bert", "Runs: old", "Nodes: cpu-1", "Nodes: gpu-1", "People: ada"]);
    expect(words("vis")).toContain("Teams: vision");
  });

  it("nodes of that name first, and of others why they were found", () => {
    const nodes = commandsOf("gpu", PAGES, found, null, () => true).filter(({ group }) => group === "Nodes");
    expect(nodes.map(({ words, hint }) => [words, hint])).toEqual([["gpu-1", "ready"], ["cpu-1", "ready, vision/bert-gpu"]]);
  });

  it("nothing that was found for a shorter text and does not fit", () => {
    const older = fitting(found, parsed("stop"), "stop old");
    expect([older.runs.map(({ name }) => name), older.nodes]).toEqual([["old"], []]);
    expect(fitting(found, parsed("stop ada"), "stop  ADA")).toBe(found);
  });

  it("to do with runs what they allow", () => {
    expect(words("stop b")).toEqual(["Do: Stop bert"]);
    expect(words("kill b")).toEqual(["Do: Kill bert"]);
    expect(words("resume")).toEqual(["Do: Resume old"]);
    expect(words("stop", run("mine"))[0]).toBe("Do: Stop mine");
    expect(words("", run("mine")).slice(0, 4)).toEqual(["Do: Stop mine", "Do: Restart mine", "Do: Delete mine", "Do: Compare mine"]);
  });

  it("to start a notebook or a sweep", () => {
    const act = (text: string) => commandsOf(text, [], NOTHING, null, () => true).map(({ act }) => act);
    expect(act("note")).toEqual([{ to: "/start?type=notebook" }]);
    expect(act("start")).toEqual([{ to: "/start?type=run" }, { to: "/start?type=notebook" }, { to: "/start?type=sweep" }]);
  });

  it("nothing to do with runs that the person may only see", () => {
    expect(words("stop b", null, false)).toEqual([]);
    expect(words("", run("mine"), false).slice(0, 2)).toEqual(["Do: Compare mine", "Pages: Runs"]);
  });

  it("to compare a run with the one whose page is open", () => {
    const [first] = commandsOf("compare old", PAGES, { ...found, runs: [run("old")] }, run("bert"), () => false);
    expect([first?.words, first?.hint, first?.act]).toEqual(["Compare old", "with bert", { to: "/compare?run=vision%2Fbert&run=vision%2Fold" }]);
    expect(commandsOf("compare", PAGES, NOTHING, run("bert"), () => false)[0]?.act).toEqual({ to: "/compare?run=vision%2Fbert" });
  });
});
