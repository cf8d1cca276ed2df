import { describe, expect, it } from "vitest";
import { chosenColumns, MOST_COLUMNS } from "../../table/columns/columnChoice";
import { ordered } from "../../table/sorting";
import { columnsFor, SORT_KEYS } from "./columns";
import { FIGURE_COLUMNS, short } from "./figureColumns";
import { listed, type ListedRow } from "../data/listed";
import type { Row } from "../data/rows";
import { WHOSE, type Whose } from "../filter/whose";

const RUN = { uid: "a", phase: "Running" } as Row;
const figures = new Map([["a", { gpu: 97, leastGpu: 3, leastRank: 5, step: 1234.4, name: "loss", value: 0.345678 }]]);

function cells(row: ListedRow) {
  return FIGURE_COLUMNS.map(({ cell }) => cell(row));
}

describe("the columns at first", () => {
  const names = (whose: Whose, hasGpus: boolean) => chosenColumns(columnsFor(whose, hasGpus), null).map(({ name }) => name);

  it.each((Object.keys(WHOSE) as Whose[]).flatMap((whose) => [false, true].map((hasGpus) => [whose, hasGpus] as const)))("of %s, with GPUs: %s, are at most eight and end with the reason", (whose, hasGpus) => {
    const shown = names(whose, hasGpus);
    expect(shown.length).toBeLessThanOrEqual(MOST_COLUMNS);
    expect([shown.at(-1), shown.includes("GPU use")]).toEqual(["Why", hasGpus]);
  });

  it("have the loss of one's own runs, and the owner of others'", () => {
    expect([names("mine", true).includes("Loss"), names("mine", true).includes("Owner")]).toEqual([true, false]);
    expect([names("all", true).includes("Loss"), names("all", true).includes("Owner")]).toEqual([false, true]);
  });
});

describe("the last figures of a run", () => {
  it("are empty where nothing is known", () => {
    const [row] = listed([RUN], undefined, new Map());
    expect(cells(row!)).toEqual(["", "", "", ""]);
  });

  it("have the name of a figure that is no loss", () => {
    const [row] = listed([RUN], undefined, new Map([["a", { name: "accuracy", value: 0.91 }]]));
    expect(cells(row!)[2]).toBe("0.91 accuracy");
  });

  it("are short", () => {
    const [row] = listed([RUN], undefined, figures);
    expect(cells(row!).slice(1)).toEqual(["3 %", "0.3457", "1,234"]);
    expect([short(1.2e-7), short(123456), short(0)]).toEqual(["1.2e-7", "123500", "0"]);
  });

  it("order the runs, unknown ones last", () => {
    const runs = listed([{ ...RUN, uid: "b" }, RUN], undefined, figures);
    for (const descending of [false, true]) expect(ordered(runs, { by: "gpuUse", descending }, SORT_KEYS).map(({ uid }) => uid)).toEqual(["a", "b"]);
  });
});
