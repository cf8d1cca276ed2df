import { expect, it, vi } from "vitest";
import { NOT_THERE, startBoard } from "./tensorboard";

const PLACE = { namespace: "vision", name: "bert", rank: 2, folder: "/ckpt/events" };

function started() {
  const heard = new Map<string, (event: unknown) => void>();
  const socket = { binaryType: "blob" as BinaryType, close: vi.fn(), addEventListener: (name: string, listener: (event: unknown) => void) => heard.set(name, listener) };
  const listens = vi.fn();
  const ended = vi.fn();
  let asked = "";
  const board = startBoard(PLACE, listens, ended, (address) => ((asked = address), socket as never), "https://kaji.test");
  const say = (channel: number, text: string) => heard.get("message")?.({ data: Uint8Array.of(channel, ...new TextEncoder().encode(text)).buffer });
  return { board, listens, ended, socket, say, address: new URL(asked), hangUp: () => heard.get("close")?.({}) };
}

it("asks for TensorBoard with the folder and any free port, without a terminal", () => {
  const { address } = started();
  const words = address.searchParams.getAll("command");
  expect([address.pathname, words[0], words.slice(-3), address.searchParams.get("rank"), address.searchParams.get("tty")]).toEqual(["/v1/runs/vision/bert/exec", "/bin/sh", ["sh", "/ckpt/events", ""], "2", "false"]);
  expect(words[2]).toContain("tensorboard --logdir");
});

it("tells the port once TensorBoard has printed it, in whatever parts", () => {
  const { listens, say } = started();
  say(2, "NOTE: Using experimental fast data loading\nTensorBoard 2.21.0 at http://127.0.0.1:60");
  expect(listens).not.toHaveBeenCalled();
  say(2, "07/ (Press CTRL+C to quit)\n");
  say(2, "GET /data\n");
  expect(listens).toHaveBeenCalledExactlyOnceWith(6007);
});

it.each([
  [127, "", NOT_THERE],
  [1, "line\nPort 6006 is in use", "TensorBoard has ended with exit code 1. Port 6006 is in use"],
])("tells why it ended with %d", (code, output, expected) => {
  const { ended, say, hangUp } = started();
  if (output) say(2, output);
  say(3, JSON.stringify({ status: "Failure", reason: "NonZeroExitCode", details: { causes: [{ reason: "ExitCode", message: `${code}` }] } }));
  hangUp();
  expect(ended).toHaveBeenCalledExactlyOnceWith(expected);
});

it("ends with its connection, and silently if the person ends it", () => {
  const first = started();
  first.hangUp();
  expect(first.ended).toHaveBeenCalledOnce();
  const second = started();
  second.board.close();
  second.hangUp();
  expect([second.ended.mock.calls.length, second.socket.close.mock.calls.length]).toEqual([0, 1]);
});
