import { describe, expect, it } from "vitest";
import { addressOf, changeOf, labelsIn, pairsOf } from "./labels";

describe("labels", () => {
  it("stand by key as the command line writes them", () => {
    expect(pairsOf({ team: "vision", stage: "" })).toEqual(["stage=", "team=vision"]);
    expect(pairsOf(undefined)).toEqual([]);
  });

  it("are read from lines", () => {
    expect(labelsIn(" stage = final \n\nnote\nx=a=b\n")).toEqual({ stage: "final", note: "", x: "a=b" });
  });

  it("lead to the runs that have them", () => expect(addressOf("a/b=c d")).toBe("/runs?whose=all&text=a%2Fb%3Dc+d"));

  it("change by what differs", () => {
    expect(changeOf({ a: "1", b: "2", c: "3" }, { a: "1", b: "4", d: "" })).toEqual({ set: { b: "4", d: "" }, remove: ["c"] });
    expect(changeOf({ a: "1" }, { a: "1" })).toBeNull();
  });
});
