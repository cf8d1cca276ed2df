import { expect, it } from "vitest";
import { changedRows, newestFirst, rowsOf, type Row } from "./rows";

function row(name: string, second: number, message = ""): Row {
  return { uid: `u-${name}`, name, namespace: "vision", createdAt: `2026-11-23T10:00:0${second}Z`, message } as Row;
}

const names = (rows: Parameters<typeof newestFirst>[0]) => newestFirst(rows).map(({ name }) => name);

it("orders rows by age, then by name", () => {
  expect(names(rowsOf({ items: [row("b", 1), row("a", 1), row("new", 2)] } as never))).toEqual(["new", "a", "b"]);
});

it("follows changes, and leaves what it was given as it was", () => {
  const before = rowsOf({ items: [row("a", 1), row("b", 2)] } as never);
  const after = changedRows(before, {
    added: [row("c", 3)],
    changed: [row("a", 1, "waits")],
    removed: [{ namespace: "vision", name: "b", uid: "u-b" }],
  } as never);
  expect(names(after)).toEqual(["c", "a"]);
  expect(after.get("u-a")?.message).toBe("waits");
  expect(names(before)).toEqual(["b", "a"]);
});
