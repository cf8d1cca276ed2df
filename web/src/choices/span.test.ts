import { describe, expect, it } from "vitest";
import { boundsOf, optionsOf, spanOf, writeSpan, type Span } from "./span";

const NOW = new Date(2026, 10, 23, 15, 30).getTime();
const local = (...parts: [number, number, number]) => new Date(...parts).toISOString().replace(".000Z", "Z");
const span = (kind: Span["kind"], from = "", to = ""): Span => ({ kind, from, to });

describe("the time in the address", () => {
  it.each([span("7d"), span("last-month"), span("own", "2026-10-02", "2026-10-31"), span("own", "2026-10-02")])(
    "comes back as it was: %j",
    (wanted) => {
      const parameters = new URLSearchParams("by=owner");
      writeSpan(parameters, wanted);
      expect(spanOf(parameters)).toEqual(wanted);
      expect(parameters.get("by")).toBe("owner");
    },
  );

  it("leaves out the default and what makes no sense", () => {
    const parameters = new URLSearchParams("time=x&from=yesterday");
    expect(spanOf(parameters)).toEqual(span("30d"));
    writeSpan(parameters, span("30d", "2026-10-02"));
    expect(parameters.toString()).toBe("");
  });
});

describe("the bounds of a time", () => {
  it.each([
    [span("month"), { since: local(2026, 10, 1), until: "" }],
    [span("last-month"), { since: local(2026, 9, 1), until: local(2026, 10, 1) }],
    [span("own", "2026-10-02", "2026-10-31"), { since: local(2026, 9, 2), until: local(2026, 10, 1) }],
    [span("own"), { since: "", until: "" }],
    [span("all"), { since: "", until: "" }],
  ])("of %j are those of the person's days", (wanted, bounds) => expect(boundsOf(wanted, NOW)).toEqual(bounds));

  it("of the last days count back from now", () => {
    expect(Date.parse(boundsOf(span("7d"), NOW).since)).toBe(NOW - 7 * 86_400_000);
  });
});

it("tells a terminal durations, and exact times of months", () => {
  expect(optionsOf(span("7d"), NOW)).toEqual(["--since", "7d"]);
  expect(optionsOf(span("month"), NOW)).toEqual(["--since", local(2026, 10, 1)]);
});
