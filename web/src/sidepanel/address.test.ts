import { describe, expect, it } from "vitest";
import { besideOf, listBeside, listOf, pageOf, withItem, withList } from "./address";

const run = { namespace: "vision", name: "舵 a" };
const parameters = (text: string) => new URLSearchParams(text);

describe("the address of an item", () => {
  it("beside its list has the filter and the order of the list", () => {
    const filter = parameters("text=a b&phase=Queued,Failed&sort=-gpus");
    const address = new URL(besideOf("/runs", run, filter, "members"), "http://x");
    expect(address.pathname).toBe("/runs/vision/%E8%88%B5%20a");
    expect(`${listBeside(address.searchParams)}`).toBe(`${filter}`);
    expect(address.searchParams.get("tab")).toBe("members");
  });

  it("beside a whole list differs from the address of its page", () => {
    const address = new URL(besideOf("/runs", run, parameters(""), null), "http://x");
    expect(`${listBeside(address.searchParams)}`).toBe("");
    expect(listBeside(parameters("tab=members"))).toBeNull();
  });

  it("of its page has what is shown of it, without the list", () => {
    const shown = withList(parameters("tab=members&rank=3"), parameters("text=a"));
    expect(pageOf("/runs", run, shown)).toBe("/runs/vision/%E8%88%B5%20a?tab=members&rank=3");
    expect(pageOf("/runs", run)).toBe("/runs/vision/%E8%88%B5%20a");
  });

  it("keeps the list while something else is shown of the item", () => {
    expect(`${withItem(parameters("list=text%3Da&logs=0-3"), { tab: "time" })}`).toBe("tab=time&list=text%3Da");
    expect(`${withItem(parameters("logs=0-3"), { tab: "time" })}`).toBe("tab=time");
  });
});

it("leaves out a question mark without parameters", () => {
  expect([listOf("/runs", parameters("")), listOf("/runs", parameters("whose=mine"))]).toEqual(["/runs", "/runs?whose=mine"]);
});
