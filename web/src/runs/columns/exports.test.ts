import { expect, it } from "vitest";
import { commandOf, csvOf } from "./exports";
import type { Row } from "../data/rows";

it("saves runs with their figures and labels", () => {
  const run = { uid: "a", name: "bert", namespace: "vision", message: '=1+1, "x"', members: { total: 2 }, labels: { stage: "final", a: "" } } as unknown as Row;
  const [header = "", line = ""] = csvOf([run], new Map([["a", { name: "loss", value: 0.5 }]])).split("\n");
  const cells = Object.fromEntries(header.split(",").map((name, place) => [name, line.replace(`"'=1+1, ""x"""`, "QUOTED").split(",")[place]]));
  expect(cells).toMatchObject({ name: "bert", namespace: "vision", message: "QUOTED", members: "2", running: "", figure: "loss", value: "0.5", labels: "a= stage=final", uid: "a" });
});

it.each([
  [{ whose: "mine", text: "", phases: [] }, "kaji ps -a", ""],
  [{ whose: "all", text: "stage=final", phases: ["Failed", "Stopped"] }, "kaji ps -a --all-users -f label=stage=final -f status=failed,stopped", ""],
  [{ whose: "team", text: "bert", phases: [] }, "kaji ps -a --all-users", "The command leaves out the choice of your teams and words that are no labels."],
] as const)("has the command for %j", (filter, command, missing) => {
  expect(commandOf({ ...filter, phases: [...filter.phases], order: null })).toEqual({ command, missing });
});
