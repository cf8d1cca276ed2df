import { describe, expect, it } from "vitest";
import type { Secret, Volume } from "../../needs/useNeeds";
import { checkpointPicks, imagePicks, isPicked, nodeImages, secretPicks, toggled, volumePicks } from "./picks";

const volume = (name: string, kind: Volume["kind"], more: Partial<Volume> = {}): Volume => ({ name, kind, source: "", usedBy: [], ...more });

describe("volumes", () => {
  const picks = volumePicks([volume("imagenet", "claim", { readOnly: true }), volume("/scratch", "folder"), volume("gone", "claim", { state: "Missing" }), volume("bert-checkpoint", "checkpoint", { run: "bert" })]);

  it("become lines of the field", () => expect(picks.map(({ text }) => text)).toEqual(["imagenet:/imagenet:ro", "/scratch:/scratch"]));

  it("are added once, and taken away by another click, whatever path the person wrote", () => {
    const [imagenet, scratch] = picks as [(typeof picks)[0], (typeof picks)[0]];
    const both = toggled(toggled("", imagenet), scratch);
    expect(both).toBe("imagenet:/imagenet:ro\n/scratch:/scratch");
    expect(isPicked("imagenet:/data", imagenet)).toBe(true);
    expect(toggled("imagenet:/data\nhome:/home", imagenet)).toBe("home:/home");
  });
});

it("knows a secret by its name in each of its forms", () => {
  const [hub] = secretPicks([{ name: "hub", keys: ["token"] } as Secret]);
  expect(["hub", "hub:/certs", "TOKEN=hub/token", "other"].map((line) => isPicked(line, hub!))).toEqual([true, true, true, false]);
  expect(hub).toMatchObject({ text: "hub", title: "Keys: token" });
});

it("offers checkpoints of runs that are gone: the name of one that exists is taken", () => {
  const left = [volume("a-checkpoint", "checkpoint", { run: "a" }), volume("b-checkpoint", "checkpoint", { run: "b" }), volume("c", "claim")];
  expect(checkpointPicks(left, new Set(["b"])).map(({ word, text }) => [word, text])).toEqual([["Go on from a", "a"]]);
});

describe("images", () => {
  it("fit what is typed, each once", () => {
    const images = ["python:3", "bert:1", "python:3", "", "registry/Python:2"];
    const words = (typed: string) => imagePicks(images, typed).map(({ word }) => word);
    expect([words(""), words(" pyth"), words("python:3"), words("nothing")]).toEqual([["python:3", "bert:1", "registry/Python:2"], ["python:3", "registry/Python:2"], [], []]);
  });

  it("of nodes have the names that docker run takes", () => {
    const names = [["docker.io/library/python@sha256:1", "docker.io/library/python:3"], ["docker.io/team/bert:1"], ["quay.io/x:1"], ["only@sha256:2"]];
    expect(nodeImages(names.map((each) => ({ names: each, sizeBytes: 1, nodes: 1 })))).toEqual(["python:3", "team/bert:1", "quay.io/x:1"]);
  });
});
