import { expect, it } from "vitest";
import { markOf, ranksTitle, stackText, wordsBeside } from "./stacks";

const group = (ranks: number[], words: string, odd = false) => ({ ranks, odd, words });

it("names ranks with ranges", () => {
  expect(ranksTitle([2])).toBe("Rank 2");
  expect(ranksTitle([0, 1, 5])).toBe("3 ranks: 0-1, 5");
  expect(ranksTitle(Array.from({ length: 7500 }, (_, rank) => rank))).toBe("7,500 ranks: 0-7499");
});

it("does not say twice what a group says", () => {
  const words = ["It is stuck.", "Rank 2 on n1 is in load (data.py:14).", "PyTorch's flight recorder: rank 2 is late."];
  expect(wordsBeside(words, [group([2], "rank 2 on n1 is in load (data.py:14)")])).toEqual([words[0], words[2]]);
});

it("marks the ranks that the others wait for", () => {
  expect(markOf(group([0, 1], "in all_reduce"), [2])).toBe("");
  expect(markOf(group([2], "in load", true), [])).toBe("The others may wait here");
  expect(markOf(group([2], "in load", true), [2])).toBe("Late");
  expect(markOf(group([2, 3, 4], "in load"), [3, 4])).toBe("Late: 3-4");
});

it("prints stacks as the command line does", () => {
  const frames = [
    { function: "recv", file: "[libc.so.6]", line: 0 },
    { function: "load", file: "data.py", line: 14 },
  ];
  const process = { pid: 7, command: "python train.py", state: "S", threads: [{ name: "", active: false, frames }] };
  const dead = { pid: 8, command: "sh", state: "D", waitsIn: "nfs_wait", trouble: "no Python" };
  expect(stackText({ rank: 2, node: "n1", at: "", processes: [process, dead], leftOut: 3 })).toBe(
    [
      "Rank 2 on n1, process 7: python train.py",
      "  Thread ? (waits)",
      "    recv [libc.so.6]",
      "    load (data.py:14)",
      "",
      "Rank 2 on n1, process 8: sh",
      "  no stack (state D, waits in nfs_wait): no Python",
      "",
      "and 3 more processes",
    ].join("\n"),
  );
});
