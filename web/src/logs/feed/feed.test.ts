import { expect, it, vi } from "vitest";
import { LogFeed } from "./feed";
import type { LogWindow } from "./rows";

// The calls need the address of a page.
vi.mock("../../api/client", () => ({ Refused: class extends Error {}, refusalFrom: vi.fn() }));

const HIT = { rank: 0, attempt: 1, time: "2026-11-21T10:00:00.000000000Z", nth: 1, cursor: "c" };

/** A server whose answers the test gives, in the order of the questions. */
class Asked {
  readonly queries: URLSearchParams[] = [];
  private readonly answers: ((window: Partial<LogWindow>) => void)[] = [];
  readonly get: typeof fetch = (address) => {
    this.queries.push(new URL(`${address as string}`, "http://kaji.test").searchParams);
    return new Promise((resolve) => this.answers.push((window) => resolve(Response.json(window))));
  };
  answer(question: number, text: string) {
    this.answers[question]?.({ rank: 0, attempt: 1, lines: [{ time: HIT.time, line: text }], before: "b", after: "a", atEnd: false });
  }
}

const SOON = { timeout: 4_500, interval: 5 };
const lines = (feed: LogFeed) => feed.snapshot().rows.map(({ text }) => text);

it("asks for no neighbours of lines that are about to be replaced", async () => {
  const asked = new Asked();
  const feed = new LogFeed("/logs", [{ rank: 0, attempt: 1 }], false, asked.get);
  feed.toEnd();
  asked.answer(0, "the end");
  await vi.waitFor(() => expect(lines(feed)).toEqual(["the end"]), SOON);
  feed.toHit(HIT);
  await Promise.all([feed.older(), feed.newer()]);
  asked.answer(1, "the hit");
  await vi.waitFor(() => expect(lines(feed)).toEqual(["the hit"]), SOON);
  expect(asked.queries.map((query) => query.get("at") ?? query.get("before") ?? query.get("after"))).toEqual([null, "c"]);
});

it("drops neighbours that arrive after another place was asked for", async () => {
  const asked = new Asked();
  const feed = new LogFeed("/logs", [{ rank: 0, attempt: 1 }], false, asked.get);
  feed.toEnd();
  asked.answer(0, "the end");
  await vi.waitFor(() => expect(lines(feed)).toEqual(["the end"]), SOON);
  const older = feed.older();
  feed.toHit(HIT);
  asked.answer(2, "the hit");
  await vi.waitFor(() => expect(lines(feed)).toEqual(["the hit"]), SOON);
  asked.answer(1, "before the end");
  await older;
  expect(lines(feed)).toEqual(["the hit"]);
});
