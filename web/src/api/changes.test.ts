import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { brokenAt, followChanges, heardAt, NO_LINK, SILENCE_MS } from "./changes";
import { onDoubtfulSession } from "./session";

vi.mock("./signIn", () => ({ whoAmI: async () => null }));

class FakeSource extends EventTarget {
  readyState = 1;
  closed = false;
  constructor(readonly address: string) {
    super();
    opened.push(this);
  }
  close() {
    this.closed = true;
  }
  say(kind: string, data = "{}", lastEventId = "") {
    this.dispatchEvent(Object.assign(new Event(kind), { data, lastEventId }));
  }
}

let opened: FakeSource[] = [];
const doubted = vi.fn();
onDoubtfulSession(doubted);
const open = (address: string) => new FakeSource(address) as unknown as EventSource;
const reader = { snapshot: vi.fn(), changes: vi.fn(), heard: vi.fn(), broken: vi.fn() };

beforeEach(() => {
  opened = [];
  vi.useFakeTimers();
  vi.clearAllMocks();
});
afterEach(() => void vi.useRealTimers());

it("opens a silent connection again where it was, and says that it broke", () => {
  const close = followChanges("/v1/runs/changes?owner=a", reader, { open });
  opened[0]?.say("snapshot", "[1]", "e.f.7");
  vi.advanceTimersByTime(SILENCE_MS - 1);
  opened[0]?.say("heartbeat", "{}", "e.f.8");
  vi.advanceTimersByTime(SILENCE_MS - 1);
  expect(reader.broken).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(reader.broken).toHaveBeenCalledOnce();
  expect(opened.map(({ address, closed }) => [address, closed])).toEqual([
    ["/v1/runs/changes?owner=a", true],
    ["/v1/runs/changes?owner=a&since=e.f.8", false],
  ]);
  close();
  vi.advanceTimersByTime(2 * SILENCE_MS);
  expect(opened.length).toBe(2);
});

it("opens a connection again that the browser gave up, and says why it was refused", async () => {
  followChanges("/v1/nodes/changes", reader, { since: "e.f.1", open });
  Object.assign(opened[0] ?? {}, { readyState: 2 });
  opened[0]?.say("error");
  await vi.advanceTimersByTimeAsync(3_000);
  expect(reader.broken).toHaveBeenLastCalledWith(new Error("your session has ended"));
  expect(doubted).toHaveBeenCalledOnce();
  expect(opened.map(({ address }) => address)).toEqual(Array(2).fill("/v1/nodes/changes?since=e.f.1"));
});

it("knows until when it was current", () => {
  const reason = new Error("away");
  expect(brokenAt(heardAt(5), 9, reason)).toEqual({ currentAt: 9, error: reason });
  expect(brokenAt({ currentAt: 9, error: reason }, 20, reason).currentAt).toBe(9);
  expect(brokenAt(NO_LINK, 9, reason).currentAt).toBe(0);
});
