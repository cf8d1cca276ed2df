import { describe, expect, it } from "vitest";
import { addressOf, contains, found, outsideOf, scarcestFirst, shareOf, sizeOf, throughOf, wordsOfUse } from "./addresses/addresses";
import { fileWith, NOTHING_PLANNED, saidOf, yamlOf } from "./planned";
import { classesOf, flowOf, missingOf, optionsOf } from "./traffic/traffic";

describe("an address", () => {
  it.each([
    ["10.1.2.3", "10.1.0.0/16", true],
    ["10.2.0.0", "10.1.0.0/16", false],
    ["10.1.2.3", "0.0.0.0/0", true],
    ["fd00:1::4", "fd00:1::/64", true],
    ["fd00:2::4", "fd00:1::/64", false],
    ["::", "::/0", true],
    ["10.1.2.3", "fd00:1::/64", false],
  ])("%s lies in %s: %s", (address, cidr, expected) => expect(contains(cidr, addressOf(address)!)).toBe(expected));

  it.each(["10.1.2", "10.1.2.300", "fd00", "1::2::3", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7", "g::1", "paris"])("is not %s", (text) => expect(addressOf(text)).toBeNull());
});

const RANGES = [
  { cidr: "10.32.0.0/14", kind: "pods" as const, cluster: "paris", via: ["10.16.0.1"] },
  { cidr: "10.96.0.0/16", kind: "services" as const, cluster: "paris", public: "10.112.0.0/16", via: ["10.0.1.1"], natHost: "nat-a" },
  { cidr: "fd00:10::/48", kind: "services" as const, cluster: "tokyo" },
];

it("finds the range of an address, also of one that stands for it outside, and ranges by words", () => {
  const cidrs = (text: string) => found(RANGES, text).map(({ cidr }) => cidr);
  expect(cidrs("10.33.1.2")).toEqual(["10.32.0.0/14"]);
  expect(cidrs("10.112.0.9")).toEqual(["10.96.0.0/16"]);
  expect(cidrs("paris services")).toEqual(["10.96.0.0/16"]);
  expect(cidrs("").length).toBe(3);
  expect(RANGES.map(outsideOf)).toEqual(["as it is", "10.112.0.0/16", "not reached"]);
  expect(RANGES.map(throughOf)).toEqual(["10.16.0.1", "nat-a (10.0.1.1)", ""]);
  expect(RANGES.map(({ cidr }) => sizeOf(cidr))).toEqual(["262,144", "65,536", "2^80"]);
});

it("puts nodes that run out of addresses first", () => {
  const node = (name: string, pods: number, addresses: number | null, runsOut = "") => ({ name, pods, addresses, runsOut, podCidrs: [], mostPods: 110 });
  const nodes = [node("n10", 1, 253), node("n9", 9, 253), node("n2", 0, 61, "too few"), node("n1", 5, null)];
  expect(scarcestFirst(nodes).map(({ name }) => name)).toEqual(["n2", "n9", "n10", "n1"]);
  expect(nodes.map(shareOf)).toEqual([1 / 253, 9 / 253, 0, null]);
  expect(wordsOfUse(nodes)).toBe("1 of 4 nodes runs out of addresses for Pods, now or before it is full.");
  expect(wordsOfUse(nodes.slice(0, 2))).toContain("all 2 nodes suffice");
  expect(wordsOfUse(nodes.slice(3))).toContain("single addresses");
});

describe("a planned cluster", () => {
  const planned = { ...NOTHING_PLANNED, name: "lyon", pods: "10.48.0.0/14, fd00:3::/48", nodeCount: "500", nodePrefix: "x" };

  it("is checked with all others, and becomes lines for the file", () => {
    expect(JSON.parse(fileWith({ hub: null, clusters: [{ name: "paris" }] }, planned))).toEqual({
      hub: null,
      clusters: [{ name: "paris" }, { name: "lyon", pods: ["10.48.0.0/14", "fd00:3::/48"], size: { nodes: 500, nodePrefix: "x" } }],
    });
    expect(yamlOf(planned)).toBe('clusters:\n  - name: lyon\n    pods: ["10.48.0.0/14", "fd00:3::/48"]\n    size: {nodes: 500, nodePrefix: x}');
  });

  it("has the server's words beside its fields", () => {
    const faults = [
      { field: "clusters[1].pods[0]", message: "overlaps", hint: "choose another" },
      { field: "clusters[1].pods[1]", message: "is public" },
      { field: "clusters[1].size.nodes", message: "is missing" },
      { field: "clusters[0].pods", message: "is nearly full" },
      { field: "", message: "odd" },
    ];
    expect(saidOf(faults, 1)).toEqual({ byField: { pods: "overlaps; choose another. is public", nodeCount: "is missing" }, others: ["clusters[0].pods: is nearly full", "odd"] });
  });
});

describe("traffic", () => {
  const count = (bytes: number, bytesPerSecond = 0) => ({ bytes, packets: 1, bytesPerSecond });
  const row = { name: "bert", classes: [{ name: "internet", sent: count(7, 2), received: count(9) }, { name: "cluster", sent: count(1), received: count(1) }] };
  const nodes = { counted: 1, silent: "n[2-3]", silentCount: 2, uncountedPods: 1 };
  const list = { items: [row], total: 1, orderClass: "internet", rateSeconds: 300, nodes, at: "", kept: false, hidden: 3 };

  it("is told by class", () => {
    expect(classesOf(list)).toEqual(["internet", "cluster"]);
    expect(flowOf(row, "internet")).toEqual({ sent: 7, received: 9, sentPerSecond: 2, receivedPerSecond: 0 });
    expect(flowOf(row, "storage").sent).toBe(0);
    expect(optionsOf("run", "")).toEqual({ "--by": "", "--class": "" });
  });

  it("says what it leaves out", () => {
    expect(missingOf(list, "run")).toEqual([
      "2 nodes told nothing lately, so this may be too little: n[2-3].",
      "1 Pod cannot be counted.",
      "Totals of ended runs are lost when this server stops: it has no store.",
      "3 runs of teams whose runs you may not list are not shown; the sums by team include them.",
    ]);
    expect(missingOf({ ...list, kept: true, hidden: 0, nodes: { ...nodes, counted: 0, uncountedPods: 0 } }, "user")).toEqual([]);
  });
});
