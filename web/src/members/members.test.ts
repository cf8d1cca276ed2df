import { describe, expect, it } from "vitest";
import type { Member } from "../api/client";
import { cellAt, gridOf } from "./grid";
import { allRanks, kindOf, told } from "./kinds";

function member(rank: number, more: Partial<Member> = {}): Member {
  return { rank, attempt: 1, pod: `p-${rank}`, node: `n-${rank % 3}`, phase: "Running", reason: "", message: "", address: "", exitCode: null, startedAt: "", restarts: 0, lastExitCode: null, terminating: false, health: "", ...more };
}

describe("members", () => {
  it("include ranks without a Pod", () => {
    const placed = allRanks([member(2)], 4);
    expect(placed.map((each) => kindOf(each).word)).toEqual(["Not there", "Not there", "Running", "Not there"]);
    expect(allRanks([member(17)], null).map(({ rank }) => rank)).toEqual([17]);
  });

  it("say how they are", () => {
    const [placed] = allRanks([member(0, { phase: "Failed", reason: "OutOfMemory", message: "used 2 GiB", attempt: 3, restarts: 1 })], 1);
    expect(placed && told(placed)).toBe("Failed; on n-0; OutOfMemory: used 2 GiB; attempt 3; restarted once");
  });

  it("fit the height, 7,500 of them as well", () => {
    const grid = gridOf(allRanks(Array.from({ length: 7_500 }, (_, rank) => member(rank)), 7_500), "rank", 1_200, 420);
    expect(grid.cells).toHaveLength(7_500);
    expect(grid.height).toBeLessThanOrEqual(420);
    expect(cellAt(grid, grid.cells[4_321]?.x ?? 0, grid.cells[4_321]?.y ?? 0)).toBe(4_321);
  });

  it("stand together by state or by node", () => {
    const placed = allRanks([member(0), member(1, { phase: "Failed" }), member(2), member(3)], 5);
    const byState = gridOf(placed, "state", 200, 420);
    expect(byState.headings.map(({ text }) => text)).toEqual(["Failed: 1", "Running: 3", "Not there: 1"]);
    expect(gridOf(placed, "node", 2_000, 420).cells.map((cell) => cell.placed.rank)).toEqual([0, 3, 1, 2, 4]);
  });
});
