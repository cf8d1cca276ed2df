import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { onDoubtfulSession } from "../api/session";
import { AGAIN_MS, mayPass, ShellConnection } from "./connection";

class FakeSocket extends EventTarget {
  readyState = 0;
  binaryType: BinaryType = "blob";
  sent: number[] = [];
  constructor() {
    super();
    sockets.push(this);
  }
  accept() {
    this.readyState = 1;
    this.dispatchEvent(new Event("open"));
  }
  say(channel: number, content: string) {
    const data = Uint8Array.of(channel, ...new TextEncoder().encode(content)).buffer;
    this.dispatchEvent(Object.assign(new Event("message"), { data }));
  }
  end(reason = "") {
    this.readyState = 3;
    this.dispatchEvent(Object.assign(new Event("close"), { reason }));
  }
  send(message: Uint8Array) {
    this.sent.push(message[0] ?? -1);
  }
  close() {
    this.end();
  }
}

let sockets: FakeSocket[] = [];
const screen = { show: vi.fn(), size: () => ({ columns: 80, rows: 24 }), ready: vi.fn(), waiting: vi.fn(), ended: vi.fn() };
const doubted = vi.fn();
onDoubtfulSession(doubted);
const known = { isOver: false, members: 2 };
const connect = () => new ShellConnection("ws://kaji.test", 1, () => known, screen, () => new FakeSocket() as unknown as WebSocket);
const PENDING = '{"status":"Failure","message":"rank 1 of a is Pending, not running","code":409,"reason":"WrongState"}';
const FORBIDDEN = `{"status":"Failure","message":"no right","code":403,"details":{"causes":[{"reason":"Hint","message":"ask"}]}}`;

beforeEach(() => {
  sockets = [];
  Object.assign(known, { isOver: false });
  vi.useFakeTimers();
  vi.clearAllMocks();
});
afterEach(() => void vi.useRealTimers());

it("waits for a member that does not run yet, and then opens", () => {
  connect();
  sockets[0]?.accept();
  sockets[0]?.say(3, PENDING);
  sockets[0]?.end();
  expect(screen.waiting).toHaveBeenLastCalledWith("rank 1 of a is Pending, not running");
  vi.advanceTimersByTime(AGAIN_MS);
  sockets[1]?.accept();
  expect(screen.ready).not.toHaveBeenCalled();
  sockets[1]?.say(1, "$ ");
  expect([screen.ready.mock.calls.length, screen.ended.mock.calls.length, sockets.length]).toEqual([1, 0, 2]);
});

it("tries again if no connection comes about", () => {
  connect();
  sockets[0]?.end();
  expect(screen.waiting.mock.lastCall?.[0]).toMatch("can't be reached");
  expect(doubted, "the session may have ended").toHaveBeenCalledOnce();
  vi.advanceTimersByTime(AGAIN_MS);
  expect(sockets.length).toBe(2);
});

it("ends at a refusal that stays, with its hint, and when the run is over", () => {
  connect();
  sockets[0]?.accept();
  sockets[0]?.say(3, FORBIDDEN);
  sockets[0]?.end();
  expect(screen.ended).toHaveBeenLastCalledWith("no right; ask");
  known.isOver = true;
  connect();
  sockets[1]?.accept();
  sockets[1]?.say(3, PENDING);
  sockets[1]?.end();
  vi.runAllTimers();
  expect([screen.ended.mock.calls.length, screen.waiting.mock.calls.length, sockets.length]).toEqual([2, 0, 2]);
});

it("says how a shell ended, and opens none by itself", () => {
  connect();
  sockets[0]?.accept();
  sockets[0]?.say(1, "$ ");
  sockets[0]?.say(3, '{"status":"Success"}');
  sockets[0]?.end();
  vi.runAllTimers();
  expect([screen.ended.mock.lastCall, sockets.length]).toEqual([["The shell has ended."], 1]);
});

it("asks no more once it is closed", () => {
  const connection = connect();
  sockets[0]?.end();
  connection.close();
  vi.runAllTimers();
  expect([sockets.length, screen.ended.mock.calls.length]).toEqual([1, 0]);
});

it.each([
  [409, { isOver: false, members: 0 }, true],
  [409, { isOver: true, members: 2 }, false],
  [404, { isOver: false, members: 2 }, true],
  [404, { isOver: false, members: 1 }, false],
  [503, { isOver: true, members: 2 }, true],
  [403, { isOver: false, members: 2 }, false],
])("refusal %i, case %#", (status, run, passes) => expect(mayPass(status, 1, run)).toBe(passes));
