import { describe, expect, it } from "vitest";
import {
  addressOf,
  commandOf,
  csvOf,
  hours,
  largestFirst,
  largestInWords,
  measuresOf,
  nameOf,
  parametersOf,
  questionOf,
  share,
  tableRows,
  type By,
  type Question,
  type Usage,
  type UsageRow,
} from "./usage";
import type { Span } from "../choices/span";
import { cell } from "../words/csv";
import { columnsOf, hasHours, heightInWords, timeByOf, titleOf } from "./overTime";
import { daysAsked, partsOf, ratioInWords, type Report } from "./lost";

const row = (key: string, gpuHours: number, coreHours = 1): UsageRow => ({
  key,
  gpuSeconds: 3600 * gpuHours,
  coreSeconds: 3600 * coreHours,
  memoryGibSeconds: 0,
  memberSeconds: 60,
  cost: gpuHours * 2,
});
const usage = (by: string, ...items: UsageRow[]): Usage => ({
  by,
  since: "2026-10-24T00:00:00Z",
  until: "2026-11-23T00:00:00Z",
  currency: "EUR",
  items,
  count: items.length,
  total: row("", items.reduce((sum, { gpuSeconds }) => sum + gpuSeconds / 3600, 0)),
});
const question: Question = {
  by: "owner",
  span: { kind: "7d", from: "", to: "" },
  team: "vision",
  owner: "ana o'neil",
  measure: "cost",
};

describe("the question in the address", () => {
  it("comes back as it was", () => expect(questionOf(parametersOf(question))).toEqual(question));

  it("leaves out defaults and what makes no sense", () => {
    const asked = questionOf(new URLSearchParams("by=x&measure=y"));
    expect([asked.by, asked.measure]).toEqual(["team", "gpu"]);
    expect(parametersOf(asked).toString()).toBe("");
  });

  it("is a command, whose words a shell takes as they are", () => {
    expect(commandOf(question, 0)).toBe(`kaji usage --by owner --owner 'ana o'"'"'neil' -N vision --since 7d`);
    expect(commandOf({ ...question, owner: "@me", team: "" }, 0)).toBe("kaji usage --by owner --owner @me --since 7d");
  });
});

it("names rows for people, and links those that have a page", () => {
  expect([nameOf("run", "vision/bert/u-1"), nameOf("type", ""), nameOf("team", "")]).toEqual([
    "vision/bert",
    "without GPUs",
    "(none)",
  ]);
});

it.each<[By, string, string]>([
  ["run", "vision/bert/u-1", "/runs/vision/u-1"],
  ["node", "g 1", "/cluster/g%201"],
  ["team", "nlp", "/usage?by=owner&time=7d&team=nlp&owner=ana"],
  ["owner", "bo", "/usage?by=run&time=7d&team=vision&owner=bo"],
  ["type", "h100", ""],
  ["run", "(others)", ""],
  ["node", "(expired)", ""],
])("leads from a %s to what it consists of: %s", (by, key, address) => {
  expect(addressOf({ ...question, owner: "ana", measure: "gpu", by }, key)).toBe(address);
});

it("tells who used most, by GPUs if there were any", () => {
  const both = usage("owner", row("ana", 3), { ...row("bo", 1), cost: 9 });
  expect(largestInWords(both, "gpu")).toBe("2 people; the most by ana: 75 % of the GPU-hours.");
  expect(largestFirst(both, "cost").map(({ key }) => key)).toEqual(["bo", "ana"]);
  expect(largestInWords(usage("team", row("vision", 3)), "gpu")).toBe("all of it: the team vision.");
  expect(largestInWords(usage("team"), "gpu")).toBe("");
  expect(measuresOf({ ...usage("team", row("a", 0)), currency: "" })).toEqual(["core"]);
});

describe("usage over time", () => {
  const days = { ...usage("day", row("2026-11-20", 48), row("2026-11-21", 12)), since: "2026-11-20T12:00:00Z", until: "2026-11-21T06:00:00Z" };

  it("has the average of each day's part in the time", () => {
    expect(columnsOf(days, "gpu").map(({ height }) => height)).toEqual([4, 2]);
    expect(columnsOf(days, "cost").map(({ height }) => height)).toEqual([96, 24]);
    expect(columnsOf(days, "gpu")[0]?.words).toContain("(UTC): 4 GPUs on average, 48 GPU-hours");
  });

  it("leaves out what only daily sums are left of", () => {
    const hour = { ...usage("hour", row("(expired)", 9), row("2026-11-20T12:00:00Z", 1)), since: days.since, until: days.until };
    expect(columnsOf(hour, "gpu").map(({ height }) => height)).toEqual([1]);
  });

  it("is by hour for a week, and hours can be chosen for a month", () => {
    const now = Date.parse("2026-11-23T10:00:00Z");
    const of = (kind: Span["kind"], from = "") => ({ kind, from, to: "" });
    expect([of("7d"), of("30d"), of("all")].map((span) => timeByOf(span, now))).toEqual(["hour", "day", "day"]);
    expect([of("30d"), of("own", "2026-01-01")].map((span) => hasHours(span, now))).toEqual([true, false]);
  });

  it("is in a table with the newest day first, and says its unit", () => {
    expect(tableRows(days, "gpu").map(({ key }) => key)).toEqual(["2026-11-21", "2026-11-20"]);
    expect([heightInWords(1, "gpu", ""), heightInWords(1.25, "core", ""), titleOf("day", "gpu")]).toEqual(["1 GPU", "1.3 cores", "GPUs in use, average of each day"]);
  });
});

it("writes hours and shares with the digits that matter", () => {
  expect([hours(3600 * 12_345.6), hours(3600 * 1.239), hours(3), share(1, 3), share(1, 1000), share(999, 1000), share(0, 0)]).toEqual([
    (12_346).toLocaleString(),
    (1.24).toLocaleString(),
    `under ${(0.01).toLocaleString()}`,
    "33 %",
    "under 1 %",
    "over 99 %",
    "",
  ]);
});

it("writes CSV that a spreadsheet reads as text", () => {
  const [, line] = csvOf(usage("owner", row('=a,"b"', 1))).split("\n");
  expect(line).toBe(`"'=a,""b""",3600,3600,0,60,2`);
  expect([cell(-1), cell("-1"), cell("plain"), cell(undefined)]).toEqual(["-1", "'-1", "plain", ""]);
});

it("asks for the last day of a report, not for the day after it", () => {
  const bounds = { since: "2026-11-01T00:00:00Z", until: "2026-11-11T00:00:00Z" };
  expect(daysAsked(bounds)).toEqual({ since: bounds.since, until: "2026-11-10T23:59:59Z" });
  expect(daysAsked({ since: "", until: "" })).toEqual({ since: "", until: "" });
});

it("sums lost time by GPUs, or by members without GPUs", () => {
  const category = { category: "lost", meaning: "done again", seconds: 0, gpuSeconds: 0, memberSeconds: 5 };
  const report = { ratio: 0.924, total: { gpuSeconds: 0, categories: [category] } } as unknown as Report;
  expect(partsOf(report)).toEqual([{ category: "lost", meaning: "done again", seconds: 5 }]);
  expect(ratioInWords(report)).toBe("92 % of the time for which members held nodes was productive.");
  expect(ratioInWords({ ...report, ratio: null })).toBe("No run held nodes in this time.");
});
