import { beforeEach, expect, it, vi } from "vitest";
import { perform } from "./perform";

const called: string[] = [];
let phases: string[] = [];
let uid = "u-1";

vi.mock("../api/client", () => {
  const answer = (data: object) => ({ data, response: { ok: true } });
  return {
    client: {
      POST: async (path: string, { body, params }: { body?: { grace: string | null }; params: { header: object } }) => {
        expect(params.header).toEqual({ "If-Match": "u-1" });
        called.push(`${path.split("/").at(-1)} ${body?.grace ?? ""}`.trim());
        return answer({ uid: "u-1", graceSeconds: 30 });
      },
      GET: async () => answer({ uid, status: { phase: phases.shift() } }),
    },
    contentOf: ({ data }: { data: object }) => data,
    ensureDone: () => undefined,
    Refused: class extends Error {
      constructor(_: number, message: string) {
        super(message);
      }
    },
  };
});

const bert = { namespace: "vision", name: "bert", uid: "u-1" };

beforeEach(() => {
  called.length = 0;
  uid = "u-1";
  vi.useFakeTimers();
  return () => void vi.useRealTimers();
});

it("queues a run again only once it has ended", async () => {
  phases = ["Running", "Running", "Stopped"];
  const done = perform("restart", bert);
  await vi.advanceTimersByTimeAsync(1_500);
  expect(called).toEqual(["stop"]);
  await vi.advanceTimersByTimeAsync(1_000);
  await done;
  expect(called).toEqual(["stop", "resume"]);
});

it("starts no other run that has got the name, and gives up after the grace", async () => {
  uid = "u-2";
  await expect(perform("restart", bert)).rejects.toThrow("bert is another run now");
  uid = "u-1";
  phases = Array.from({ length: 200 }, () => "Running");
  const late = expect(perform("restart", bert)).rejects.toThrow("has not ended yet");
  await vi.advanceTimersByTimeAsync(160_000);
  await late;
  expect(called).toEqual(["stop", "stop"]);
});

it("kills with no grace", async () => {
  await perform("kill", bert);
  expect(called).toEqual(["stop 0s"]);
});
