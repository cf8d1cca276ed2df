import { describe, expect, it } from "vitest";
import { hintFor, inWords, rowsOf, type Guarantee } from "./guarantees";

const guarantee = (namespace: string, more: Partial<Guarantee>): Guarantee => ({ namespace, gpuType: null, gpus: null, cpuMillis: null, memoryBytes: null, nodes: null, ...more });
const FOUND = [
  guarantee("vision", { gpuType: "h100", gpus: { total: 64, used: 48 } }),
  guarantee("vision", { cpuMillis: { total: 400_000, used: 12_500 }, memoryBytes: { total: 2 ** 40, used: 0 } }),
  guarantee("nlp", { gpus: { total: 8, used: 24 } }),
  guarantee("audio", { nodes: { total: 2, used: 1 } }),
];

it("shows each guaranteed resource, how much of it is left, and what is borrowed", () => {
  expect(rowsOf(FOUND).map(({ team, what, used, total, left, borrowed }) => [team, what, used, total, left, borrowed].join(" "))).toEqual([
    "vision h100 GPUs 48 64 16 ",
    "vision cores 12.5 400 387.5 ",
    "vision memory 0 B 1 TiB 1 TiB ",
    "nlp GPUs 24 8 0 16",
    "audio whole nodes 1 2 1 ",
  ]);
  expect(rowsOf(FOUND).map(inWords)[3]).toBe("24 of 8 GPUs in use; 16 borrowed, which may be taken back");
});

describe("beside the GPU type", () => {
  it.each([
    ["vision", "h100", "vision uses 48 of its 64 h100 GPUs; more is borrowed, and may be taken back."],
    ["vision", "", "vision uses 48 of its 64 h100 GPUs; more is borrowed, and may be taken back."],
    ["vision", "a100", "vision is guaranteed no a100 GPUs: what it uses may be taken back."],
    ["nlp", "a100", "nlp uses 24 GPUs where it is guaranteed 8; more is borrowed, and may be taken back."],
    ["audio", "", "audio is guaranteed no GPUs: what it uses may be taken back."],
    ["", "", ""],
  ])("the form tells a person of %j who asks for %j", (team, type, words) => expect(hintFor(FOUND, team, type)).toBe(words));

  it("the form tells nothing where policy guarantees nothing", () => expect(hintFor([], "vision", "h100")).toBe(""));
});
