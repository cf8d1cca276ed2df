import { describe, expect, it } from "vitest";
import { chosenColumns, MOST_COLUMNS } from "./columns/columnChoice";
import { inPlace } from "./inPlace";
import { extent, range, toggled } from "./selection";
import { nextOrder, ordered, orderOf, orderText } from "./sorting";

const KEYS = { name: (word: string) => word, length: (word: string) => word.length };

describe("an order", () => {
  it.each(["name", "-length"])("stands in the address as %s", (text) => {
    expect(orderText(orderOf(text, KEYS))).toBe(text);
  });

  it.each([null, "", "-", "constructor", "size"])("that is not known is none: %j", (text) => {
    expect(orderOf(text, KEYS)).toBeNull();
  });

  it("follows the clicks on a header", () => {
    const first = nextOrder({ by: "name", descending: false }, "length", true);
    const second = nextOrder(first, "length", true);
    expect([orderText(first), orderText(second), nextOrder(second, "length", true)]).toEqual(["-length", "length", null]);
  });

  it.each([false, true])("has rows whose value is not known last, in both directions", (descending) => {
    const keys = { known: (word: string) => (word.startsWith("?") ? null : word) };
    const known = descending ? ["b", "a"] : ["a", "b"];
    expect(ordered(["?2", "a", "?1", "b"], { by: "known", descending }, keys)).toEqual([...known, "?2", "?1"]);
  });

  it("keeps equal rows in their place", () => {
    expect(ordered(["bb", "aa", "c"], { by: "length", descending: true }, KEYS)).toEqual(["bb", "aa", "c"]);
    expect(ordered(["bb", "aa", "c"], { by: "name", descending: false }, KEYS)).toEqual(["aa", "bb", "c"]);
  });
});

it("keeps rows in their place while new ones come and old ones go", () => {
  const row = (key: string, value = 0) => ({ key, value });
  const shown = inPlace([row("a"), row("b"), row("c")], [row("new"), row("c", 1), row("a")], ({ key }) => key);
  expect(shown).toEqual([row("a"), row("c", 1)]);
});

describe("the columns of a table", () => {
  const all = Array.from({ length: 12 }, (_, place) => ({ name: `${place}`, isExtra: place >= 8 }));
  const names = (stored: string | null) => chosenColumns(all, stored).map(({ name }) => name);

  it("are the usual ones, at most eight, until a person chooses", () => {
    expect(names(null)).toEqual(["0", "1", "2", "3", "4", "5", "6", "7"]);
    expect(names(null).length).toBe(MOST_COLUMNS);
  });

  it("are those that the person chose, in the order of the table", () => {
    expect(names('["9","0","gone"]')).toEqual(["0", "9"]);
    expect(names("{nonsense").length).toBe(8);
    expect(names('["gone"]').length).toBe(8);
  });
});

describe("selected rows", () => {
  const all = ["a", "b", "c", "d"];

  it("are those from the last click to this one, with Shift", () => {
    const keys = toggled(new Set(["b"]), "d", range(all, "b", "d"));
    expect([...keys]).toEqual(["b", "c", "d"]);
    expect([...toggled(keys, "b", range(all, "c", "b"))]).toEqual(["d"]);
    expect(range(all, "gone", "c")).toEqual(["c"]);
  });

  it.each([
    [[], "none"],
    [["a", "z"], "some"],
    [all, "all"],
  ])("%j are %s of the shown ones", (keys, expected) => expect(extent(new Set(keys), all)).toBe(expected));
});
