import { describe, expect, it } from "vitest";
import { plain, spansOf } from "./lines/ansi";
import { folded } from "./lines/folds";
import { FrameReader } from "./feed/frames";
import { cut, linksIn } from "./lines/links";
import { chunkOf, lastDrawing, latestToBegin, merged, MOST_ROWS, only, sizeOf, withEarlier, withLater, withNew, type LogWindow, type Row } from "./feed/rows";
import { parseSources, textOf } from "./feed/sources";

const at = (second: number) => `2026-11-21T10:${`${Math.floor(second / 60)}`.padStart(2, "0")}:${`${second % 60}`.padStart(2, "0")}.000000000Z`;

function windowOf(first: number, count: number, more: Partial<LogWindow> = {}): LogWindow {
  const lines = Array.from({ length: count }, (_, index) => ({ time: at(first + index), line: `line ${first + index}` }));
  return { rank: 0, attempt: 1, lines, before: `b${first}`, after: `a${first + count - 1}`, ...more };
}

const texts = (rows: readonly Row[]) => rows.map(({ text }) => text);

describe("sources", () => {
  it("reads ranges and attempts and writes them again", () => {
    expect(textOf(parseSources("0-2,5, 7@1") ?? [])).toBe("0-2, 5, 7@1");
    expect(parseSources("3-1")).toBeNull();
    expect(parseSources("all")).toBeNull();
    expect(parseSources("0-99999")).toHaveLength(64);
  });
});

describe("the held part of a log", () => {
  it("drops the newest rows when older ones are read", () => {
    let held = only(windowOf(0, 1_000, { atEnd: true }));
    for (let part = 0; part < 25; part++) held = withEarlier(held, chunkOf(windowOf(0, 1_000)));
    expect(sizeOf(held.chunks)).toBe(MOST_ROWS);
    expect(held.isAtEnd).toBe(false);
  });

  it("knows where the rows before a new chunk are", () => {
    let held = withLater(only(windowOf(0, 5)), chunkOf(windowOf(5, 5)), true);
    expect(held.chunks[1]?.earlier).toEqual({ to: "a4" });
    for (let part = 0; part < 30; part++) held = withNew(held, chunkOf(windowOf(0, 1_000)).rows, `a${part}`);
    expect(sizeOf(held.chunks)).toBeLessThan(MOST_ROWS + 2_000);
    expect(held.chunks[0]?.earlier).toEqual({ to: expect.stringMatching(/^a\d+$/) as string });
  });

  it("learns from an empty answer that nothing is before it", () => {
    expect(withEarlier(only(windowOf(3, 2)), chunkOf(windowOf(0, 0))).chunks[0]?.earlier).toBeNull();
  });

  it("merges by time, and leaves out what is not held of all logs", () => {
    const [one, other] = [only(windowOf(5, 3, { atEnd: true })), only(windowOf(0, 7, { rank: 1, before: "", atEnd: true }))];
    expect(texts(merged([one, other]))).toEqual(["line 5", "line 5", "line 6", "line 6", "line 7"]);
    expect(latestToBegin([one, other])).toEqual([0]);
    expect(texts(merged([only(windowOf(0, 2)), other]))).toEqual(["line 0", "line 0", "line 1", "line 1"]);
  });
});

describe("frames", () => {
  const frame = (rank: number, text: string) => {
    const bytes = new TextEncoder().encode(text);
    return new Uint8Array([...new TextEncoder().encode(`${JSON.stringify({ rank, attempt: 1, size: bytes.length, cursor: "c" })}\n`), ...bytes]);
  };

  it("reads them from pieces of any size", () => {
    const whole = new Uint8Array([...frame(0, `${at(1)} ü\n${at(2)} beg`), ...frame(1, `${at(2)} x\n`), ...frame(0, `un\n${at(3)} 1%\r2%\r\n`)]);
    for (const size of [1, 7, 1_000]) {
      const reader = new FrameReader();
      const batches = [];
      for (let start = 0; start < whole.length; start += size) batches.push(...reader.feed(whole.slice(start, start + size)));
      expect(batches.map(({ rank, rest, rows }) => [rank, rest, texts(rows)])).toEqual([
        [0, "", ["ü", "beg"]],
        [1, "", ["x"]],
        [0, "un", ["2%"]],
      ]);
      expect(batches[0]?.rows[0]?.time).toBe(at(1));
    }
  });
});

describe("colours", () => {
  it("are spans, and other escapes are left out", () => {
    expect(spansOf("\x1b[1;31mbad\x1b[0m \x1b[38;5;46mgood\x1b[38;2;10;20;250mblue\x1b[2K\x1b]0;title\x07.")).toEqual([
      { text: "bad", style: { bold: true, colour: 1 } },
      { text: " ", style: {} },
      { text: "good", style: { colour: 2 } },
      { text: "blue", style: { colour: 4 } },
      { text: ".", style: { colour: 4 } },
    ]);
    expect(plain("\x1b[31m<b>\x1b[0m\x07")).toBe("<b>");
  });

  it("show the last drawing of a progress bar", () => {
    expect([lastDrawing("10%\r20%"), lastDrawing("10%\r20%\r"), lastDrawing("x")]).toEqual(["20%", "20%", "x"]);
  });
});

describe("addresses in a line", () => {
  const found = (text: string) => linksIn(text).map(({ start, end }) => text.slice(start, end));

  it.each([
    ["Open http://127.0.0.1:8888/lab?token=a1b2 now", ["http://127.0.0.1:8888/lab?token=a1b2"]],
    ["see HTTPS://Example.org/a, https://[::1]:80/b.", ["HTTPS://Example.org/a", "https://[::1]:80/b"]],
    ["(https://a.org/x_(y)) [https://b.org/] <https://c.org>…", ["https://a.org/x_(y)", "https://b.org/", "https://c.org"]],
    [`{"a":"https://a.org/","b":['http://b.org','http://c.org']}`, ["https://a.org/", "http://b.org", "http://c.org"]],
    ["学習はhttps://例え.jp/図。", ["https://例え.jp/図"]],
    ["שלום https://a.org/שלום, עולם", ["https://a.org/שלום"]],
  ])("%s", (text, links) => expect(found(text)).toEqual(links));

  it.each([
    "javascript:alert(1)//",
    "javascript://a.org/%0aalert(1)",
    "data:text/html,<script>alert(1)</script>",
    "file:///etc/passwd ftp://a.org vbscript://x",
    "xhttps://a.org",
    "http:// https:// http://. https://]",
    "https://a@evil.example https://good.org:x@evil.example/",
    "http://a.org:99999999/",
  ])("are not in %s", (text) => expect(found(text)).toEqual([]));

  it("end where the direction of text is turned or markup begins", () => {
    expect(found("https://a.org/\u202egro.doog")).toEqual(["https://a.org/"]);
    expect(found('https://a.org/"onclick="x https://b.org/<img src=x>')).toEqual(["https://a.org/", "https://b.org/"]);
  });

  it("are found in linear time", () => {
    const size = 1_000_000;
    for (const text of ["http://", "https", "://", "h", "https://a.org/" + ")".repeat(50) + " ", "http://a(".repeat(400) + ")".repeat(400) + ". "]) {
      const began = performance.now();
      linksIn(text.repeat(size / text.length));
      linksIn(`https://a.org/${text.repeat(size / text.length)}`);
      expect(performance.now() - began).toBeLessThan(3_000);
    }
  });

  it("are cut out of a text beside colours and matches", () => {
    const link = { start: 2, end: 6 };
    expect(cut(0, 8, [link])).toEqual([{ start: 0, end: 2, isIn: false }, { ...link, isIn: true }, { start: 6, end: 8, isIn: false }]);
    expect(cut(3, 5, [{ start: 0, end: 1 }, link, { start: 7, end: 8 }])).toEqual([{ start: 3, end: 5, isIn: true }]);
    expect(cut(4, 9, [{ start: 0, end: 5 }, { start: 8, end: 12 }]).map(({ start, isIn }) => [start, isIn])).toEqual([[4, true], [5, false], [8, true]]);
    expect(cut(3, 3, [link])).toEqual([]);
  });
});

describe("tracebacks", () => {
  const row = (key: number, text: string, rank = 0): Row => ({ key, rank, attempt: 1, time: at(key), nth: 1, text });
  const rows = ["start", "[rank0]: Traceback (most recent call last):", '[rank0]:   File "t.py", line 3, in <module>', "[rank0]:     f()", "[rank0]: ValueError: nan", "end"].map((text, key) => row(key, text));

  it("fold to the message and the last frame", () => {
    const [before, fold, after] = folded(rows, new Set());
    expect(fold?.fold).toMatchObject({ message: "ValueError: nan", frame: 'File "t.py", line 3, in <module>' });
    expect([before?.row.key, fold?.fold?.rows.length, after?.row.key]).toEqual([0, 4, 5]);
    expect(folded(rows, new Set([1]))).toHaveLength(6);
  });

  it("stay open without an end, or if another rank prints into them", () => {
    expect(folded(rows.slice(0, 4), new Set())).toHaveLength(4);
    expect(folded([...rows.slice(0, 3), row(9, "x", 1), ...rows.slice(3)], new Set())).toHaveLength(7);
  });
});
