import { expect, it } from "vitest";
import type { Row } from "../data/rows";
import { commandOf, pruned, type Age } from "./prune";

const NOW = Date.parse("2026-11-29T12:00:00Z");

function run(name: string, phase: Row["phase"], finishedAt = "", deleting = false) {
  return { name, phase, finishedAt, deleting };
}

const RUNS = [
  run("going", "Running"),
  run("new", "Failed", "2026-11-29T11:00:00Z"),
  run("old", "Succeeded", "2026-11-20T11:00:00Z"),
  run("gone", "Stopped", "2026-11-01T11:00:00Z", true),
  run("unknown", "Failed"),
];

it.each<[Age, string[]]>([
  ["", ["new", "old", "unknown"]],
  ["1d", ["old"]],
  ["7d", ["old"]],
  ["30d", []],
])("deletes ended runs that are older than %j", (age, names) => expect(pruned(RUNS, age, NOW).map(({ name }) => name)).toEqual(names));

it.each([
  ["" as Age, false, "kaji prune"],
  ["7d" as Age, true, "kaji prune --older-than 7d -v"],
])("has the command for %j and checkpoints %j", (olderThan, checkpoints, command) => expect(commandOf({ olderThan, checkpoints })).toBe(command));
