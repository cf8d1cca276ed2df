import { describe, expect, it } from "vitest";
import { auditCommandOf, auditFilterOf, auditParametersOf, scopeInWords, type AuditFilter } from "./audit";
import { addressOf, commandOf, filterOf, lasted, parametersOf, type Filter, type RecordedRun } from "./filter";

const span = { kind: "7d" as const, from: "", to: "" };
const filter: Filter = { name: "be", text: "stage=final", owner: "ana", team: "vision", phases: ["Failed", "Stopped"], span };
const audit: AuditFilter = { actor: "@me", object: "run bert", outcome: "refused", team: "", span };

describe("the filter of ended runs", () => {
  it("comes back from the address as it was", () => {
    expect(filterOf(parametersOf(filter))).toEqual(filter);
    expect(filterOf(new URLSearchParams("phase=Running,Failed")).phases).toEqual(["Failed"]);
    expect(parametersOf(filterOf(new URLSearchParams())).toString()).toBe("");
  });

  it.each([
    [filter, "kaji history --name be --search stage=final -N vision --owner ana --status failed --status stopped --since 7d"],
    [{ ...filter, owner: "", name: "", text: "", team: "", phases: [] }, "kaji history --all-users --status succeeded --status failed --status stopped --since 7d"],
    [{ ...filter, owner: "@me", name: "", text: "", team: "" }, "kaji history --status failed --status stopped --since 7d"],
  ])("is a command: %#", (wanted, line) => expect(commandOf(wanted, 0)).toBe(line));
});

it("opens a removed run by its UID, because its name may be another's now", () => {
  const run = { namespace: "vision", name: "bert", uid: "u-1", removedAt: "" } as RecordedRun;
  expect(addressOf(run)).toBe("/runs/vision/bert");
  expect(addressOf({ ...run, removedAt: "2026-11-23T10:00:00Z" })).toBe("/runs/vision/u-1");
});

it("knows no length of a run that never started", () => {
  const ended = { endedAt: "2026-11-23T10:00:05Z" } as RecordedRun;
  expect(lasted({ ...ended, startedAt: "2026-11-23T10:00:00Z" })).toBe(5);
  expect(lasted({ ...ended, startedAt: "" })).toBeNull();
});

describe("the audit trail", () => {
  it("keeps its filter in the address, and as a command", () => {
    expect(auditFilterOf(auditParametersOf(audit))).toEqual(audit);
    expect(auditFilterOf(new URLSearchParams("outcome=perhaps")).outcome).toBe("");
    expect(auditCommandOf(audit, 0)).toBe("kaji audit log --actor @me --object 'run bert' --outcome refused --since 7d");
  });

  it.each([
    [null, "", true, /^All changes/],
    [["vision", "nlp"], "", true, /^You see changes in: vision, nlp/],
    [["a", "b", "c", "d", "e"], "", true, /5 teams/],
    [[], "", true, /^Nothing was changed in your teams yet/],
    [[], "", false, /^You may not read the audit trail/],
    [null, "vision", true, /^Changes in vision/],
  ])("says which part of it one sees: %j %j %j", (namespaces, team, hasTeams, words) =>
    expect(scopeInWords(namespaces, team, hasTeams)).toMatch(words),
  );
});
