import { describe, expect, it } from "vitest";
import { frameOf } from "./archive";
import example from "./cases.json";
import { contentsOf, treeOf, type Found } from "./folder";
import { excludes, rulesOf } from "./ignoring";
import { packed } from "./pack";

const NEVER = new AbortController().signal;

function exampleFolder(): Found[] {
  const files = Object.entries(example.files).map(([path, text]) => [path.split("/"), new Blob([text])] as const);
  return withFolders(treeOf(files), example.empty.map((path) => path.split("/")));
}

/** The folder with empty folders, which only a dropped folder has. */
function withFolders(found: Found[], paths: string[][]): Found[] {
  return paths.reduce((tree, [name = "", ...rest]) => {
    if (!rest.length) return [...tree, { name, children: async () => [] }];
    return tree.map((item) =>
      item.name === name && "children" in item ? { name, children: async () => withFolders(await item.children(), [rest]) } : item,
    );
  }, found);
}

describe("a folder in a browser", () => {
  it("has the archive that the command line makes of it", async () => {
    const { entries } = await contentsOf(exampleFolder(), NEVER);
    expect(entries.map(({ path }) => path).sort()).toEqual([...example.kept].sort());
    const pack = await packed(entries, NEVER, () => undefined);
    expect([pack.size, pack.digest]).toEqual([example.size, example.digest]);
  });

  it("is read in pieces of any length", async () => {
    const pack = await packed((await contentsOf(exampleFolder(), NEVER)).entries, NEVER, () => undefined);
    const whole = await pack.read(0, pack.size);
    expect(await pack.read(700, 1_100)).toEqual(whole.slice(700, 1_800));
    expect((await pack.read(pack.size - 10, 100)).length).toBe(10);
  });

  it("has scripts and binaries as executable files", async () => {
    const file = (name: string, ...content: BlobPart[]): Found => ({ name, file: async () => new Blob(content) });
    const { entries: found } = await contentsOf([file("run.sh", "#!/bin/sh\n"), file("train.py", "import os\n"), file("tool", Uint8Array.of(0x7f, 0x45, 0x4c, 0x46, 2)), file("empty")], NEVER);
    expect(found.filter(({ isExecutable }) => isExecutable).map(({ path }) => path)).toEqual(["run.sh", "tool"]);
    const pack = await packed(found, NEVER, () => undefined);
    const modes = [0, 1, 3].map((block) => pack.read(block * 512 + 100, 7).then((bytes) => new TextDecoder().decode(bytes)));
    expect(await Promise.all(modes)).toEqual(["0000644", "0000755", "0000755"]);
  });

  it("is not packed if it is empty or the person cancelled", async () => {
    await expect(contentsOf([], NEVER)).rejects.toThrow("is empty");
    await expect(contentsOf(exampleFolder(), AbortSignal.abort())).rejects.toThrow();
  });
});

it.each(example.patterns as [string, string, boolean][])("the pattern %j for %j: %j", (line, path, expected) => {
  expect(excludes([{ begin: 0, rules: rulesOf([line]) }], path)).toBe(expected);
});

it("stores a part as a frame with its size and blocks", () => {
  const frame = frameOf(new Uint8Array(131_073).fill(7));
  expect([...frame.subarray(0, 12)]).toEqual([0x28, 0xb5, 0x2f, 0xfd, 0xa0, 1, 0, 2, 0, 0, 0, 16]);
  expect([...frame.subarray(-4)]).toEqual([9, 0, 0, 7]);
});
