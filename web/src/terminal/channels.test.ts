import { expect, it } from "vitest";
import { read, resized, shellAddress, typed } from "./channels";

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const message = (channel: number, content: string) =>
  Uint8Array.of(channel, ...new TextEncoder().encode(content)).buffer;

it("sends keys and sizes on their channels", () => {
  expect(typed("ä")).toEqual(Uint8Array.of(0, 0xc3, 0xa4));
  expect([resized(80, 24)[0], text(resized(80, 24).subarray(1))]).toEqual([4, '{"Width":80,"Height":24}']);
});

it.each([
  [message(1, "out"), { output: new TextEncoder().encode("out") }],
  [message(2, "err"), { output: new TextEncoder().encode("err") }],
  [message(1, ""), null],
  [message(3, '{"status":"Success"}'), { ended: "The shell has ended." }],
  [message(3, '{"status":"Failure","message":"exit code 2"}'), { ended: "The shell has ended: exit code 2." }],
  [
    message(3, '{"status":"Failure","reason":"NonZeroExitCode","message":"command terminated with non-zero exit code: exit status 3","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}'),
    { ended: "The shell has ended with exit code 3.", exitCode: 3 },
  ],
  [message(3, '{"status":"Failure","message":"gone","code":500}'), { ended: "The shell has ended: gone." }],
  [
    message(3, '{"status":"Failure","message":"rank 1 is Pending","code":409,"details":{"causes":[{"reason":"Hint","message":"wait"}]}}'),
    { refused: "rank 1 is Pending", status: 409, hint: "wait" },
  ],
  [message(3, "nonsense"), { ended: "The shell has ended." }],
  [message(255, "x"), null],
  [new ArrayBuffer(0), null],
])("reads message %#", (received, meaning) => expect(read(received)).toEqual(meaning));

it("asks for a shell that knows the colours of this terminal", () => {
  expect(new URL(shellAddress("https://kaji.test", "a", "b", 0)).searchParams.getAll("command")[2]).toMatch(/^export TERM=xterm-256color;/);
});

it("escapes names in the address", () => {
  const address = new URL(shellAddress("https://kaji.test", "a/b", "c?d", 3));
  expect([address.protocol, address.pathname, address.searchParams.get("rank")]).toEqual([
    "wss:",
    "/v1/runs/a%2Fb/c%3Fd/exec",
    "3",
  ]);
});
