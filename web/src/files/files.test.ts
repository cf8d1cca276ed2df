import type { Run } from "../api/client";
import { describe, expect, it } from "vitest";
import { addressOf, copyCommand, joinedPath, memberAddress, memberCopyCommand, returnCommand, stepsFromRoot, stepsOf } from "./paths";

const RUN = { namespace: "team", title: "bert" };

describe("paths in a checkpoint folder", () => {
  it("lead back step by step", () => {
    expect(stepsOf("/ckpt", "")).toEqual([{ name: "/ckpt", path: "", isLast: true }]);
    expect(stepsOf("/ckpt", "a/重み").map(({ path, isLast }) => [path, isLast])).toEqual([
      ["", false],
      ["a", false],
      ["a/重み", true],
    ]);
  });

  it("keep names with any characters in addresses and commands", () => {
    expect(addressOf(RUN, "content", "a&b/100 %#")).toBe("/v1/runs/team/bert/files/content?path=a%26b%2F100+%25%23&wait=60");
    expect(copyCommand(RUN, "/ckpt", "it's")).toBe(`kaji cp -N team 'bert:/ckpt/it'"'"'s' .`);
    expect(copyCommand(RUN, "/ckpt", "")).toBe("kaji cp -N team bert:/ckpt .");
    const spec = { image: "python:3", checkpoint: { path: "/my ckpt" } } as Run["spec"];
    expect(returnCommand({ ...RUN, spec })).toBe("kaji run -d -N team --name bert --checkpoint '/my ckpt' --cpus 0.1 -m 64m --time-limit 1h python:3 sleep 3600");
  });
});

describe("paths in a member", () => {
  it("begin at its root", () => {
    expect(stepsFromRoot("/data/x").map(({ name, path }) => [name, path])).toEqual([
      ["/", "/"],
      ["data", "/data"],
      ["x", "/data/x"],
    ]);
    expect([joinedPath("/", "data"), joinedPath("/data", "x"), joinedPath("", "x")]).toEqual(["/data", "/data/x", "x"]);
  });

  it("keep names with any characters in addresses and commands", () => {
    expect(memberAddress(RUN, 2, "/a b&c")).toBe("/v1/runs/team/bert/member-files/content?path=%2Fa+b%26c&rank=2");
    expect(memberCopyCommand(RUN, 2, "/it's")).toBe(`kaji cp -N team --rank 2 'bert:/it'"'"'s' .`);
    expect(memberCopyCommand(RUN, 0, "/data")).toBe("kaji cp -N team bert:/data .");
  });
});
