import { expect, it } from "vitest";
import { connectLines, sshHost } from "./connect";

const run = (spec: Parameters<typeof connectLines>[0]["spec"]) => ({ name: "bert", namespace: "vision", spec });

it("names what the run has: ports, a notebook's port, a folder with event files", () => {
  expect(connectLines(run({}), 0, true)).toEqual(["kaji exec -it bert bash", "kaji ssh bert"]);
  expect(connectLines(run({ ports: [8888, 80], tensorboard: "/ckpt/events" }), 0, true).slice(2)).toEqual(["kaji port-forward bert 8888 80", "kaji tensorboard bert"]);
  expect(connectLines(run({ type: "notebook" }), 0, true)[2]).toBe("kaji port-forward bert");
});

it("names rank and namespace where they are needed", () => {
  expect(connectLines(run({ ports: [80] }), 3, false)).toEqual([
    "kaji exec -it -N vision --rank 3 bert bash",
    "kaji ssh -N vision --rank 3 bert",
    "kaji port-forward -N vision --rank 3 bert 80",
  ]);
  expect([sshHost(run({}), 0, true), sshHost(run({}), 3, false)]).toEqual(["bert.kaji", "3.bert.vision.kaji"]);
});
