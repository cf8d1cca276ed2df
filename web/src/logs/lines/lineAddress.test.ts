import { expect, it } from "vitest";
import { lineText, linkTo, parseLine, wantedIn, withWanted } from "./lineAddress";

const LINE = { rank: 3, attempt: 2, time: "2026-11-21T10:00:00.000000001Z", nth: 1 };

it.each([LINE, { ...LINE, nth: 12 }])("a line stands in the address: %j", (line) => {
  expect(parseLine(lineText(line))).toEqual({ ...line, cursor: "" });
});

it.each([null, "", "3@2", "3@2,yesterday", "3,2026-11-21T10:00:00Z", "3@2,2026-11-21T10:00:00Z,x", "javascript:alert(1)"])("%j names no line", (text) =>
  expect(parseLine(text)).toBeNull(),
);

it("a search stands in the address", () => {
  const wanted = { text: "loss=.*nan", isRegex: true, matchesCase: false };
  expect(wantedIn(withWanted(new URLSearchParams("logs=0"), wanted))).toEqual(wanted);
  expect(`${withWanted(new URLSearchParams("logs=0&search=x&case=1"), { ...wanted, text: "" })}`).toBe("logs=0");
});

it("a link to a line names its run, the logs and the search, and nothing else", () => {
  const from = new URLSearchParams("list=text%3Dbert&search=nan&tab=log&beside=1");
  expect(`${linkTo({ ...LINE, time: "2026-11-21T10:00:00Z" }, "u-1", "0-3", from)}`).toBe("uid=u-1&logs=0-3&line=3%402%2C2026-11-21T10%3A00%3A00Z&search=nan&beside=1");
});
