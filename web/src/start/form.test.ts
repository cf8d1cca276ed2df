import { describe, expect, it } from "vitest";
import type { Run } from "../api/client";
import { draftOf, EMPTY, faultsOf, fieldOf, isOffered, missingIn, notebookName, requestOf, withNotebookDefaults, withTeam, type Form } from "./form";

const specOf = (form: Partial<Form>) => requestOf({ form: { ...EMPTY, ...form }, base: {} }).spec;

describe("a form makes a request", () => {
  it("with nothing that was not filled in", () => {
    expect(requestOf({ form: { ...EMPTY, image: " python:3.11 " }, base: {} })).toEqual({
      spec: { image: "python:3.11" },
    });
  });

  it("of words as a shell splits them", () => {
    expect(specOf({ command: "python train.py --name 'a b' \"c d\"" })).toEqual({
      args: ["python", "train.py", "--name", "a b", "c d"],
    });
    expect(specOf({ command: "echo 'open" })).toEqual({ args: ["echo 'open"] });
  });

  it.each([
    ["4", { replicas: 4 }],
    [" 8-32 ", { minReplicas: 8, replicas: 32 }],
    ["many", { replicas: "many" }],
  ])("with the members %j", (members, spec) => expect(specOf({ members })).toEqual(spec));

  it("of lists with one item a line", () => {
    const spec = specOf({
      env: "LR=3e-4\n EMPTY=\n\nURL=a=b ",
      volumes: "imagenet:/data:ro\n/scratch:/tmp",
      secrets: "hub\ncerts:/certs\nTOKEN=hub/token",
    });
    expect(spec).toEqual({
      env: { LR: "3e-4", EMPTY: "", URL: "a=b " },
      volumes: [
        { name: "imagenet", path: "/data", readOnly: true },
        { hostPath: "/scratch", path: "/tmp" },
      ],
      secrets: [{ name: "hub" }, { name: "certs", path: "/certs" }, { name: "hub", key: "token", env: "TOKEN" }],
    });
  });
});

it("has the command of a health check, and keeps its times", () => {
  expect(specOf({ health: " curl -f localhost | grep ok " })).toEqual({ health: { command: "curl -f localhost | grep ok" } });
  const health = { command: ["/probe", "a b"], interval: "10s" };
  const draft = draftOf({ namespace: "vision", spec: { image: "x", health } } as unknown as Run);
  expect(draft.form.health).toBe("/probe 'a b'");
  expect(requestOf(draft).spec.health).toEqual(health);
  expect(requestOf({ ...draft, form: { ...draft.form, health: "true" } }).spec.health).toEqual({ command: "true", interval: "10s" });
  expect(requestOf({ ...draft, form: { ...draft.form, health: "" } }).spec).not.toHaveProperty("health");
});

it("asks for the same as the run that it began with, and keeps what it does not show", () => {
  const spec = {
    image: "x",
    command: ["bash"],
    args: ["-c", "echo $HOME 'x'"],
    env: { A: "1 2", TEXT: "two\nlines" },
    replicas: 4,
    minReplicas: 2,
    resources: { gpu: 8, gpuType: "h100", cpu: "7500m", memory: "64Gi", shm: "1Gi" },
    volumes: [{ name: "a", path: "/a", readOnly: true }],
    secrets: [{ name: "s", key: "k", env: "K" }],
    checkpoint: { path: "/ckpt", every: "10m" },
    health: { command: "pg_isready", interval: "10s" },
    restarts: 0,
    timeLimit: "8h",
    tolerations: [{ key: "k", operator: "Exists" }],
  };
  const run = { name: "bert", namespace: "vision", spec: { ...spec, stopped: true, resumes: 2 } } as unknown as Run;
  expect(requestOf(draftOf(run))).toEqual({ namespace: "vision", spec });
});

it.each([
  ["spec.resources.gpuType", "gpuType"],
  ["spec.resources.gpu", "gpus"],
  ["spec.volumes[1].path", "volumes"],
  ["spec.env['A B']", "env"],
  ["namespace", "namespace"],
  ["spec.qos", null],
])("shows faults of %s at %s", (path, field) => expect(fieldOf(path)).toBe(field));

describe("a notebook", () => {
  const form = { ...EMPTY, kind: "notebook" as const, gpus: "1" };
  const defaults = { name: "notebook-ada", image: "jupyter" };

  it("needs nothing but what policy has", () => {
    const draft = withNotebookDefaults({ form, base: {} }, defaults);
    expect(missingIn(draft)).toBe("");
    expect(requestOf(draft)).toEqual({ name: "notebook-ada", spec: { type: "notebook", image: "jupyter", resources: { gpu: 1 } } });
    expect(withNotebookDefaults({ form: { ...form, name: " own ", notebookImage: "mine" }, base: {} }, defaults).form).toMatchObject({ name: "own", notebookImage: "mine" });
  });

  it("has nothing of the run that was typed before", () => {
    const draft = { form: { ...form, image: "python:3", command: "train.py", members: "4", launcher: "torchrun", restarts: "3", after: "a", array: "0-9" }, base: { stuckAfter: "20m" } };
    expect(requestOf(withNotebookDefaults(draft, defaults)).spec).toEqual({ type: "notebook", image: "jupyter", resources: { gpu: 1 } });
    expect(isOffered(draft, "command")).toBe(false);
  });

  it("keeps the program of the one that it is a copy of", () => {
    const spec = { type: "notebook", image: "x", args: ["my-editor"] };
    const draft = draftOf({ spec, namespace: "" } as unknown as Run);
    expect([requestOf(draft).spec, isOffered(draft, "command"), isOffered(draft, "restarts")]).toEqual([spec, true, false]);
    expect(requestOf({ ...draft, form: { ...draft.form, kind: "run", image: "y" } }).spec).toEqual({ image: "y", args: ["my-editor"] });
  });

  it.each([
    ["Ada.Lovelace@example.org", [], "notebook-ada-lovelace"],
    ["system:serviceaccount:vision:ci", [], "notebook-ci"],
    ["ada", ["notebook-ada", "notebook-ada-2"], "notebook-ada-3"],
  ])("of %s, who has %j, is called %s", (user, taken, name) => expect(notebookName(user, taken)).toBe(name));
});

it.each(["sh -c 'echo", 'echo "a', "python train.py \\"])("is not asked about while the command %s is open: it would be one word", (command) => {
  const form = { ...EMPTY, image: "x", command };
  expect(missingIn({ form, base: {} })).toContain("Close the quotes in the command");
  expect(missingIn({ form: { ...form, kind: "notebook", notebookImage: "x" }, base: {} })).toBe("");
});

describe("a sweep", () => {
  const form = { ...EMPTY, kind: "sweep" as const, image: "x", array: " 0-9%4 ", stopAt: "first-failure", members: "3", launcher: "mpi" };

  it("has indices in place of members", () => {
    expect(requestOf({ form, base: {} }).spec).toEqual({ image: "x", array: "0-9%4", stopAt: "first-failure" });
    expect([fieldOf("spec.array"), fieldOf("spec.stopAt")]).toEqual(["array", "stopAt"]);
  });

  it("is not asked about before it has indices: it would be a run", () => {
    expect(missingIn({ form: { ...form, array: " " }, base: {} })).toBe("Write the indices of the sweep, such as 0-9.");
    expect(missingIn({ form: { ...form, image: "" }, base: {} })).toBe("Name an image to begin with.");
    expect(missingIn({ form, base: {} })).toBe("");
  });

  it("is copied as one, and becomes a run without its indices", () => {
    const draft = draftOf({ spec: { image: "x", array: "0-9", stopAt: "first-success" }, namespace: "" } as unknown as Run);
    expect(requestOf(draft).spec).toEqual({ image: "x", array: "0-9", stopAt: "first-success" });
    expect(requestOf({ ...draft, form: { ...draft.form, kind: "run" } }).spec).toEqual({ image: "x" });
  });
});

it("labels the run and its members, as kaji run does", () => {
  const draft = { form: { ...EMPTY, image: "x", labels: "project=bert \n\nbaseline" }, base: {} };
  const labels = { project: "bert", baseline: "" };
  expect(requestOf(draft)).toEqual({ labels, spec: { image: "x", labels } });
  expect(draftOf({ spec: { image: "x", labels }, namespace: "" } as unknown as Run).form.labels).toBe("project=bert\nbaseline=");
  expect([fieldOf("labels.project"), fieldOf("spec.labels['a b']")]).toEqual(["labels", "labels"]);
});

it("names the runs to wait for one a line, and shows them again", () => {
  const { spec } = requestOf({ form: { ...EMPTY, after: "prepare\n fetch:ended " }, base: {} });
  expect(spec).toEqual({ after: [{ run: "prepare" }, { run: "fetch", condition: "ended" }] });
  expect(draftOf({ spec, namespace: "" } as unknown as Run).form.after).toBe("prepare\nfetch:ended");
  expect(fieldOf("spec.after[0].run")).toBe("after");
});

it("shows beside the name that it is taken", () => {
  const taken = faultsOf({ code: "AlreadyExists", message: "there is a run 'a'", hint: "choose another", faults: [] });
  expect(taken.map(({ field, hint }) => [fieldOf(field), hint])).toEqual([["name", "choose another"]]);
  expect(faultsOf({ code: "WrongState", message: "it is being stopped", hint: "", faults: [] })).toEqual([]);
});

describe("a run starts in", () => {
  const teamFor = (teams: string[], usual: string, namespace = "") => {
    const { draft, isChosen } = withTeam({ form: { ...EMPTY, image: "x", namespace }, base: {} }, teams, usual);
    return isChosen ? (requestOf(draft).namespace ?? "") : null;
  };

  it.each([
    ["the server's default namespace", ["default", "vision"], "default", "", ""],
    ["the only namespace of the person", ["fresh"], "default", "", "fresh"],
    ["the team that the person chooses", ["fresh", "vision"], "default", "vision", "vision"],
    ["no namespace yet: one has to be chosen", ["fresh", "vision"], "default", "", null],
    ["the default while the roles are not known", [], "default", "", ""],
    ["the default while it is not known", ["fresh"], "", "", ""],
  ] as const)("%s", (_, teams, usual, namespace, expected) => expect(teamFor([...teams], usual, namespace)).toBe(expected));
});
