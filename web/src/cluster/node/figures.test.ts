import { expect, test } from "vitest";
import { commandOf, extremesAt, gpusOf, heldWords, holdersOf, lastIndex, nodeCsv, plotsOf, spansOf, wordsAt, type NodeHolder, type NodeMetrics, type NodeSeries } from "./figures";

const AT = ["2026-11-21T12:00:00Z", "2026-11-21T12:01:00Z", "2026-11-21T12:05:00Z"];
const GIB = 2 ** 30;
const TOTALS = { cpuCores: 16, memoryBytes: 64 * GIB };

function series(name: string, unit: string, values: (number | null)[], gpu: number | null = null): NodeSeries {
  return { name, unit, kind: "gauge", description: name, values, gpu };
}

function held(run: string, from: number, until: number, gpus: number[]): NodeHolder {
  return { namespace: run && "vision", run, gpus, since: AT[from]!, until: AT[until]! };
}

const FOUND: NodeMetrics = {
  node: "g1",
  since: AT[0]!,
  until: AT[2]!,
  intervalSeconds: 60,
  gpus: 3,
  at: AT,
  series: [
    series("memory.used", "bytes", [8 * GIB, 8 * GIB, 9 * GIB]),
    series("cpu.used", "cores", [1, 2, 3.25]),
    series("gpu.used", "%", [10, 20, null], 0),
    series("gpu.used", "%", [90, 100, null], 1),
    series("gpu.used", "%", [50, 20, 30], 2),
    series("gpu.memory.total", "bytes", [80 * GIB, 80 * GIB, 80 * GIB], 0),
    series("gpu.memory.used", "bytes", [4 * GIB, 4 * GIB, 5 * GIB], 0),
  ],
  holders: [held("bert", 0, 1, [0, 1]), held("", 0, 2, [2])],
  lastAt: "",
};

test("several GPUs are a median in their range, and the extremes are named", () => {
  const plots = plotsOf(FOUND, null, TOTALS);
  expect(plots.map(({ title }) => title)).toEqual(["GPU use", "GPU memory", "CPU", "Memory"]);
  const [use, memory, cpu] = plots;
  expect(wordsAt(use!, 0)).toBe("median 50 %");
  expect([0, 2, 3].map((index) => extremesAt(use!, index))).toEqual(["10 % (GPU 0) to 90 % (GPU 1)", "no GPU was measured", "all GPUs alike"]);
  expect(lastIndex(use!)).toBe(3);
  expect(wordsAt(use!, 3)).toBe("median 30 %");
  expect(wordsAt(use!, 2)).toBe("not measured");
  expect(use!.columns[0].length).toBe(4);
  expect([wordsAt(memory!, 3), extremesAt(memory!, 3)]).toEqual(["5 GiB of 80 GiB", ""]);
  expect(wordsAt(cpu!, 3)).toBe("3.25 of 16 cores");
  expect(plotsOf({ ...FOUND, series: [] }, null, TOTALS)).toEqual([]);
});

test("one GPU has a line of its own and the runs that held it", () => {
  const [use, ...others] = plotsOf(FOUND, 1, TOTALS);
  expect(wordsAt(use!, 1)).toBe("100 %");
  expect(use!.extremes.size).toBe(0);
  expect(others.map(({ name }) => name)).toEqual(["cpu.used", "memory.used"]);
  expect(holdersOf(FOUND, 1).map(({ run }) => run)).toEqual(["bert"]);
  expect(holdersOf(FOUND, null)).toHaveLength(2);
});

test("a run that may not be read has no name, and runs are told apart", () => {
  const start = Date.parse(AT[0]!) / 1000;
  expect(heldWords(FOUND.holders, start)).toBe("held by vision/bert, a run that you may not read");
  expect(heldWords(FOUND.holders, start + 3600)).toBe("no run");
  expect(spansOf(FOUND.holders)).toEqual([
    { from: start, until: start + 60, isDark: false },
    { from: start, until: start + 300, isDark: true },
  ]);
  expect([[0, 1, 3], [2], [], [0, 1, 2, 3]].map((gpus) => gpusOf({ ...FOUND.holders[0]!, gpus }, 4))).toEqual(["GPUs 0-1, 3", "GPU 2", "", ""]);
});

test("what is shown can be copied", () => {
  expect(commandOf("g1", "7d", 2)).toBe("kaji metrics --node g1 --since 7d --gpu 2");
  expect(nodeCsv(FOUND).split("\n").slice(0, 2)).toEqual(["name,unit,node,gpu,at,value", `memory.used,bytes,g1,,${AT[0]},${8 * GIB}`]);
  expect(nodeCsv(FOUND)).not.toContain("null");
});
