import { describe, expect, it } from "vitest";
import type { Run } from "../api/client";
import { draftOf, EMPTY, faultsOf, fieldOf, requestOf, type Form } from "./form";

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
