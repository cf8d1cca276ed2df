import { describe, expect, it } from "vitest";
import { legendOf, NO_READINGS } from "./colours";
import { markedBy, nodesOf, parametersOf, viewOf } from "./filter";
import { cellAt, fitted, layout, neighbour, sectionsOf } from "./map/layout";
import { briefly, expanded, membersOn } from "./names";
import type { NodeRow } from "./useNodes";

function node(name: string, part: Partial<NodeRow> = {}): NodeRow {
  const amount = { total: 8, used: 0 };
  return {
    name, state: "ready", why: "", gpuType: "h100", gpus: amount, partialGpus: {}, cpuMillis: amount,
    memoryBytes: amount, pods: amount, pool: "", places: ["zone-1", "rack-1"], holders: [], owner: "", ...part,
  };
}

describe("layout", () => {
  const nodes = ["n10", "n2", "n1", "n3", "n4"].map((name, at) => node(name, { places: ["zone-1", at < 3 ? "rack-1" : "rack-2"] }));
  const placed = layout(sectionsOf(nodes), 200, 20);

  it("keeps racks together, in the natural order of names", () => {
    expect(placed.cells.map((cell) => cell.node.name)).toEqual(["n1", "n2", "n10", "n3", "n4"]);
    expect(placed.blocks.map(({ title, count }) => [title, count])).toEqual([["rack-1", 3], ["rack-2", 2]]);
    expect(placed.headings).toMatchObject([{ text: "zone-1", x: 0, y: 0, count: 5 }]);
  });

  it("finds the cell under a point, and none between racks", () => {
    placed.cells.forEach(({ x, y }, index) => expect(cellAt(placed, x + 10, y + 10)).toBe(index));
    expect(cellAt(placed, placed.cells[3]!.x - 2, placed.cells[3]!.y + 5)).toBe(-1);
  });

  it("names racks above their cells where there is room", () => {
    expect(placed.hasNames).toBe(true);
    const small = layout(sectionsOf(nodes), 200, 10);
    expect(small.hasNames).toBe(false);
    expect(small.blocks[0]!.y).toBeLessThan(placed.blocks[0]!.y);
  });

  it("moves to the nearest cell in a direction, and stays at the edge", () => {
    expect(neighbour(placed, 0, "ArrowRight")).toBe(1);
    expect(neighbour(placed, 0, "ArrowDown")).toBe(2);
    expect(neighbour(placed, 1, "ArrowRight")).toBe(3);
    expect(neighbour(placed, 0, "ArrowLeft")).toBe(0);
  });

  it("shows 7,500 nodes without scrolling sideways", () => {
    const many = Array.from({ length: 7_500 }, (_, at) => node(`gpu-${at}`, { places: [`block-${at >> 7}`, `rack-${at >> 4}`] }));
    const all = fitted(sectionsOf(many), 1_400, 640);
    expect(all.cells.length).toBe(7_500);
    expect(all.height).toBeLessThan(1_100);
    expect(Math.max(...all.cells.map(({ x }) => x + all.cell))).toBeLessThanOrEqual(1_400);
  });
});

describe("legend", () => {
  const nodes = [
    node("free"),
    node("part", { gpus: { total: 8, used: 3 }, holders: ["team/a"], owner: "ada" }),
    node("full", { gpus: { total: 8, used: 8 }, holders: ["team/a"], owner: "ada" }),
    node("out", { state: "draining" }),
    node("cpu", { gpuType: "", gpus: { total: 0, used: 0 } }),
  ];

  it.each([
    ["use", [["free", 2], ["part", 1], ["full", 1], ["out", 1]]],
    ["holder", [["team/a", 2], ["", 3]]],
    ["type", [["h100", 4], ["", 1]]],
    ["state", [["ready", 4], ["draining", 1]]],
  ] as const)("counts nodes by %s", (dimension, expected) => {
    expect(legendOf(dimension, nodes).kinds.map(({ kind, count }) => [kind.key, count])).toEqual(expected);
  });

  it("shows temperatures where they are known", () => {
    const { kinds } = legendOf("temperature", nodes, { ...NO_READINGS, celsius: { free: 49, part: 65, full: 92 } });
    expect(kinds.map(({ kind, count }) => [kind.key, count])).toEqual([["cool", 1], ["hot", 1], ["hottest", 1], ["", 2]]);
  });

  it("shows on which nodes runs let their GPUs lie idle", () => {
    const held = [node("free"), node("busy", { holders: ["team/b"] }), node("idle", { holders: ["team/a"] }), node("both", { holders: ["team/a", "team/b"] }), node("partly", { holders: ["team/c"] })];
    const { kinds } = legendOf("idle", held, { ...NO_READINGS, idle: new Map([["team/a", true], ["team/c", false]]) });
    expect(kinds.map(({ kind, count }) => [kind.key, count])).toEqual([["all", 1], ["some", 2], ["none", 1], ["", 1]]);
  });

  it("gives all nodes of a rack the share of its GPUs that is in use", () => {
    const full = { total: 8, used: 8 };
    const racks = [node("a", { gpus: full }), node("b"), node("c", { places: ["zone-1", "rack-2"] }), node("d", { places: ["zone-2", "rack-1"], gpus: full })];
    const { kindOf } = legendOf("rack", racks);
    expect(racks.map((each) => kindOf(each).key)).toEqual(["50", "50", "0", "100"]);
  });

  it("gives the rarest names one colour together", () => {
    const many = Array.from({ length: 20 }, (_, at) => node(`n${at}`, { owner: `user${at}` }));
    expect(legendOf("owner", many).kinds.at(-1)).toMatchObject({ kind: { key: "*" }, count: 12 });
  });

  it("marks the nodes that fit every filter", () => {
    const legend = legendOf("use", nodes);
    const marked = (part: object, making: Set<string> | null = null) => {
      const found = markedBy(nodes, { ...viewOf(new URLSearchParams()), ...part }, legend, making);
      return found && [...found];
    };
    expect(marked({})).toBeNull();
    expect(marked({ text: "ADA team/a", kinds: ["full"] })).toEqual(["full"]);
    expect(marked({}, new Set(["part"]))).toEqual(["part"]);
  });
});

it("reads the nodes of the steps that make room", () => {
  const steps = [{ kind: "run", name: "team/a", nodes: "gpu-[08-10,12],x" }, { kind: "cordoned", name: "y", nodes: "" }];
  expect([...nodesOf(steps)]).toEqual(["gpu-08", "gpu-09", "gpu-10", "gpu-12", "x", "y"]);
  expect(expanded("")).toEqual([]);
});

it("keeps the view in the address", () => {
  const text = "by=type&text=rack-1&kind=h100&room=team%2Fbert&as=table&since=1d&gpu=3";
  expect(parametersOf(viewOf(new URLSearchParams(text))).toString()).toBe(text);
  expect(parametersOf(viewOf(new URLSearchParams("by=nonsense"))).toString()).toBe("");
});

it("tells in words how many members a node has", () => {
  expect(membersOn("vm*4,gpu-[1-2]")).toBe("vm (4 members), gpu-[1-2]");
  expect(membersOn("gpu-[1-2,7]*8,vm")).toBe("gpu-[1-2,7] (8 members each), vm");
});

it.each([
  ["gpu-[00001-00004,7]", 80, "gpu-[00001-00004,7]"],
  ["gpu-[01-02,10-11,03],b-9", 21, "b-9,gpu-[01-03,10-11]"],
  ["gpu-[00001-00032,00161-00176,01601-01760,00177-00192]", 40, "gpu-[00001-00032,00161-00192] and 160 more"],
  ["alpha,beta,gamma,delta", 12, "alpha,beta and 2 more"],
  ["ip-10-0-0-[3-9].local,ip-10-0-1-1.local", 25, "ip-10-0-0-[3-9].local and 1 more"],
  ["gpu-[1-4]*8,vm*2", 9, "gpu-[1-4] and 1 more"],
])("cuts the nodes %j to %d characters", (list, most, expected) => expect(briefly(list, most)).toBe(expected));
