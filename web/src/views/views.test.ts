import { describe, expect, it } from "vitest";
import { addressOf, renamed, viewsIn, withView, without, type View } from "./views";

const view = (name: string, parameters = ""): View => ({ name, parameters, columns: null });

describe("saved views", () => {
  it("come back as they were stored", () => {
    const views = [view("a", "text=x"), { ...view("b"), columns: '["Name"]' }];
    expect(viewsIn(JSON.stringify(views))).toEqual(views);
  });

  it.each([null, "{nonsense", '"text"', '[{"name": ""}, null, 3, {"name": "a"}]'])("leave out what makes no sense: %j", (stored) => expect(viewsIn(stored)).toEqual([]));

  it("replace one of their name, and stand by name", () => {
    expect(withView([view("b"), view("c", "old")], view("c", "new"))).toEqual([view("b"), view("c", "new")]);
    expect(withView([view("b")], view("a")).map(({ name }) => name)).toEqual(["a", "b"]);
  });

  it("are renamed, but not to a name that is taken, or none", () => {
    const views = [view("a", "x"), view("b")];
    expect(renamed(views, "a", " c ")).toEqual([view("b"), view("c", "x")]);
    for (const next of ["b", " ", "a"]) expect(renamed(views, "a", next)).toEqual(views);
  });

  it("are deleted", () => expect(without([view("a"), view("b")], "a")).toEqual([view("b")]));

  it("have an address", () => {
    expect([addressOf("runs", view("a", "whose=all")), addressOf("nodes", view("a"))]).toEqual(["/runs?whose=all", "/cluster"]);
  });
});
