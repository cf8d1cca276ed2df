import { expect, it, vi } from "vitest";
import { perform } from "./perform";
import type { Verb } from "./verbs";

const called: string[] = [];

interface Asked {
  body?: { grace: string | null };
  params: { header: object };
}

vi.mock("../api/client", () => {
  const ask = async (path: string, { body, params }: Asked) => {
    expect(params.header).toEqual({ "If-Match": "u-1" });
    called.push(`${path.split("/").at(-1)} ${body?.grace ?? ""}`.trim());
  };
  return { client: { POST: ask, DELETE: (_: string, asked: Asked) => ask("/delete", asked) }, ensureDone: () => undefined };
});

it.each<[Verb, string]>([
  ["stop", "stop"],
  ["kill", "stop 0s"],
  ["restart", "restart"],
  ["resume", "resume"],
  ["delete", "delete"],
])("%s is one request about the run that is meant: %s", async (verb, request) => {
  called.length = 0;
  await perform(verb, { namespace: "vision", name: "bert", uid: "u-1" });
  expect(called).toEqual([request]);
});
