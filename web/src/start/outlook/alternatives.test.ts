import { describe, expect, it } from "vitest";
import { inWords, membersIn, stopsFor, typesFor } from "./alternatives";
import { EMPTY, type Spec } from "../form";
import { offered } from "../templates";

describe("what-ifs", () => {
  it.each([
    ["", 1],
    [" 12 ", 12],
    ["8-32", null],
    ["many", null],
  ])("of the members %j begin at %j", (members, expected) => expect(membersIn({ form: { ...EMPTY, members }, base: {} })).toBe(expected));

  it.each(["notebook", "sweep"] as const)("leave the members of a %s alone", (kind) => expect(membersIn({ form: { ...EMPTY, kind }, base: {} })).toBeNull());

  it("go up to twice the wanted number", () => {
    expect(stopsFor(1)).toEqual([1, 2, 4, 8]);
    expect(stopsFor(12)).toEqual([1, 2, 4, 8, 12, 16]);
  });

  it("are about GPU types that exist, if the run needs GPUs", () => {
    const types = [
      { type: "h100", total: 8 },
      { type: "old", total: 0 },
    ];
    expect(typesFor({ ...EMPTY, gpus: "8" }, types)).toEqual(["h100"]);
    expect(typesFor(EMPTY, types)).toEqual([]);
  });

  it("are a few words", () => {
    const start = { message: "", expectedAt: "10:00" };
    const words = (starts: boolean, at: string | null) => inWords({ starts, start: { ...start, expectedAt: at } }, (time) => time);
    expect([words(true, null), words(false, "10:00"), words(false, null)]).toEqual([
      "starts now",
      "waits until 10:00",
      "waits; no time known",
    ]);
  });
});

it("offers templates of the person's teams first, and none of other teams", () => {
  const spec = {} as Spec;
  const templates = { a: { spec }, z: { teams: ["vision"], spec }, other: { teams: ["nlp"], spec } };
  expect(offered(templates, ["vision"]).map(({ name }) => name)).toEqual(["z", "a"]);
});
