import { expect, it } from "vitest";
import { yamlOf } from "./yaml";

it("prints a document as YAML", () => {
  const policy = { teams: { vision: { leads: ["ada"], namespaces: [] } }, board: "public", limits: [{ gpu: 8, type: "h100" }, {}], off: true, name: "no", quota: "10", note: "a: b" };
  expect(yamlOf(policy).split("\n")).toEqual([
    "teams:",
    "  vision:",
    "    leads:",
    "      - ada",
    "    namespaces: []",
    "board: public",
    "limits:",
    "  - gpu: 8",
    "    type: h100",
    "  - {}",
    '"off": true',
    'name: "no"',
    'quota: "10"',
    'note: "a: b"',
  ]);
});
