/** The meaning of the map's colours and shapes, by one dimension at a time that the person chooses. */
import type { NodeRow } from "./useNodes";

/** How a cell is drawn, so that colour is never the only sign. */
export type Fill = "full" | "part" | "hollow" | "crossed";

export interface Kind {
  /** The value in the address if the legend filters by it. */
  key: string;
  word: string;
  light: string;
  dark: string;
  fill: Fill;
}

export interface Legend {
  kinds: { kind: Kind; count: number }[];
  kindOf: (node: NodeRow) => Kind;
}

export const DIMENSIONS = {
  use: "Use",
  type: "GPU type",
  state: "State",
  holder: "Run",
  owner: "Owner",
  cpu: "CPU in use",
  memory: "Memory in use",
  temperature: "Temperature",
  idle: "Idle GPUs",
  rack: "Use of the rack",
} as const;
export type Dimension = keyof typeof DIMENSIONS;

const GREY = { light: "#8a939c", dark: "#737d87" };
const RED = { light: "#b3261e", dark: "#ff8a80" };

/** Colours that are told apart with every common colour blindness (Okabe and Ito), for light and dark pages. */
const PALETTE = [
  ["#0072b2", "#56b4e9"],
  ["#c46200", "#f0a03c"],
  ["#007a5a", "#3ccf9f"],
  ["#a0417d", "#e08fc0"],
  ["#8a7400", "#f0e442"],
  ["#4f4fb0", "#a9a9f5"],
  ["#8c4a2f", "#d49a7c"],
  ["#2f7f8c", "#7cd0dc"],
] as const;

const USE = {
  free: kind("free", "Free", "#0b6e69", "#5cc9c1", "hollow"),
  part: kind("part", "Partly used", "#0b6e69", "#5cc9c1", "part"),
  full: kind("full", "Fully used", "#0b6e69", "#5cc9c1", "full"),
  out: kind("out", "Takes no work", RED.light, RED.dark, "crossed"),
};

const STATES: Record<NodeRow["state"], Kind> = {
  ready: kind("ready", "Ready", "#0b6e69", "#5cc9c1", "full"),
  cordoned: kind("cordoned", "Cordoned", "#5f6368", "#b0b4b9", "hollow"),
  draining: kind("draining", "Draining", "#8a5200", "#f0b45c", "part"),
  untested: kind("untested", "Not tested", "#4a6382", "#9db4d0", "hollow"),
  unhealthy: kind("unhealthy", "Unhealthy", RED.light, RED.dark, "crossed"),
  notReady: kind("notReady", "Not ready", "#7a1fa2", "#d7a1ee", "crossed"),
};

/** A single hue from faint to strong, by quarters. */
const SHARES: Kind[] = [
  kind("0", "None", "#b9c4cc", "#39434c", "hollow"),
  kind("25", "Up to 25 %", "#9cc9e6", "#23506d", "full"),
  kind("50", "Up to 50 %", "#5fa3d0", "#2f7bab", "full"),
  kind("75", "Up to 75 %", "#2b78b0", "#56a9dc", "full"),
  kind("100", "Above 75 %", "#0a4a7a", "#a6d9fa", "full"),
];

/** Temperatures of the hottest GPU, from cool to hot. */
const HEAT: Kind[] = [
  kind("cool", "Below 50 °C", "#5fa3d0", "#2f7bab", "full"),
  kind("warm", "50 to 64 °C", "#d0a93c", "#a98a2b", "full"),
  kind("hot", "65 to 79 °C", "#c46200", "#f0a03c", "full"),
  kind("hottest", "80 °C and above", RED.light, RED.dark, "crossed"),
  kind("", "Not known", GREY.light, GREY.dark, "hollow"),
];
const HEAT_BOUNDS = [50, 65, 80];

/** Whether the runs on a node let their GPUs lie idle, as far as the person may know. */
const IDLE = {
  all: kind("all", "All idle", "#c46200", "#f0a03c", "full"),
  some: kind("some", "Some idle", "#c46200", "#f0a03c", "part"),
  none: kind("none", "None known to be idle", "#0b6e69", "#5cc9c1", "full"),
  free: kind("", "No run", GREY.light, GREY.dark, "hollow"),
};

/** Degrees Celsius of the hottest GPU, by node. */
export type Temperatures = Readonly<Record<string, number>>;
/** Runs with idle GPUs (`namespace/name`), and whether all of their GPUs are idle. */
export type IdleRuns = ReadonlyMap<string, boolean>;

/** Data that some dimensions need besides the nodes. */
export interface Readings {
  celsius: Temperatures;
  idle: IdleRuns;
}
export const NO_READINGS: Readings = { celsius: {}, idle: new Map() };

/** The state of a node in words. */
export function stateWord(state: NodeRow["state"]): string {
  return STATES[state].word;
}

/** Return what the cells mean in a dimension, with the number of nodes of each kind. */
export function legendOf(dimension: Dimension, nodes: readonly NodeRow[], readings: Readings = NO_READINGS): Legend {
  const kindOf = kindsOf(dimension, nodes, readings);
  const counts = new Map<Kind, number>();
  for (const node of nodes) counts.set(kindOf(node), (counts.get(kindOf(node)) ?? 0) + 1);
  const order = orderOf(dimension);
  const kinds = [...counts].map(([kind, count]) => ({ kind, count }));
  kinds.sort((a, b) => (order ? order.indexOf(a.kind) - order.indexOf(b.kind) : rank(a.kind) - rank(b.kind) || b.count - a.count));
  return { kinds, kindOf };
}

function kindsOf(dimension: Dimension, nodes: readonly NodeRow[], { celsius, idle }: Readings): (node: NodeRow) => Kind {
  switch (dimension) {
    case "use":
      return useOf;
    case "state":
      return (node) => STATES[node.state];
    case "cpu":
      return (node) => shareOf(node.cpuMillis);
    case "memory":
      return (node) => shareOf(node.memoryBytes);
    case "temperature":
      return (node) => heatOf(celsius[node.name]);
    case "idle":
      return (node) => idleOf(node, idle);
    case "rack":
      return rackUse(nodes);
    case "type":
      return named(nodes, (node) => node.gpuType, "No GPUs");
    case "holder":
      return named(nodes, (node) => node.holders[0] ?? "", "No run");
    case "owner":
      return named(nodes, (node) => node.owner, "Nobody");
  }
}

function orderOf(dimension: Dimension): Kind[] | null {
  if (dimension === "use") return Object.values(USE);
  if (dimension === "state") return Object.values(STATES);
  if (dimension === "temperature") return HEAT;
  if (dimension === "idle") return Object.values(IDLE);
  return dimension === "cpu" || dimension === "memory" || dimension === "rack" ? SHARES : null;
}

function useOf(node: NodeRow): Kind {
  if (node.state !== "ready") return USE.out;
  const amounts = gpusOf(node);
  const { total, used } = amounts.length ? summed(amounts) : node.cpuMillis;
  if (!used || (!amounts.length && !node.holders.length)) return USE.free;
  return used >= total ? USE.full : USE.part;
}

/** Return a node's whole and partial GPUs. */
function gpusOf(node: NodeRow) {
  return [node.gpus, ...Object.values(node.partialGpus)].filter(({ total }) => total);
}

function idleOf({ holders }: NodeRow, idle: IdleRuns): Kind {
  const found = holders.map((holder) => idle.get(holder));
  if (!found.length) return IDLE.free;
  if (found.every((isAll) => isAll === undefined)) return IDLE.none;
  return found.every((isAll) => isAll) ? IDLE.all : IDLE.some;
}

/** Give all nodes of a rack the share of its GPUs that is in use; of its cores, if it has no GPUs. */
function rackUse(nodes: readonly NodeRow[]): (node: NodeRow) => Kind {
  const rackOf = ({ pool, places }: NodeRow) => [pool, ...places].join("/");
  const racks = new Map<string, NodeRow[]>();
  for (const node of nodes) {
    const rack = racks.get(rackOf(node));
    if (rack) rack.push(node);
    else racks.set(rackOf(node), [node]);
  }
  const kinds = new Map<string, Kind>();
  for (const [name, rack] of racks) {
    const gpus = rack.flatMap(gpusOf);
    kinds.set(name, shareOf(summed(gpus.length ? gpus : rack.map(({ cpuMillis }) => cpuMillis))));
  }
  return (node) => kinds.get(rackOf(node)) ?? (SHARES[0] as Kind);
}

function summed(amounts: { total: number; used: number }[]) {
  return amounts.reduce((sum, { total, used }) => ({ total: sum.total + total, used: sum.used + used }), { total: 0, used: 0 });
}

function shareOf({ total, used }: { total: number; used: number }): Kind {
  const share = total ? used / total : 0;
  return SHARES[share <= 0 ? 0 : Math.min(4, Math.floor(share * 3.9999) + 1)] as Kind;
}

function heatOf(celsius: number | undefined): Kind {
  const place = celsius === undefined ? HEAT.length - 1 : HEAT_BOUNDS.filter((bound) => celsius >= bound).length;
  return HEAT[place] as Kind;
}

/** Give each of the most frequent names a colour; the others share one. */
function named(nodes: readonly NodeRow[], nameOf: (node: NodeRow) => string, none: string): (node: NodeRow) => Kind {
  const counts = new Map<string, number>();
  for (const node of nodes) counts.set(nameOf(node), (counts.get(nameOf(node)) ?? 0) + 1);
  const empty = kind("", none, GREY.light, GREY.dark, "hollow");
  const others = kind("*", "Others", GREY.light, GREY.dark, "full");
  const found = new Map<string, Kind>([["", empty]]);
  const names = [...counts.keys()].filter(Boolean).sort((a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0) || (a < b ? -1 : 1));
  names.slice(0, PALETTE.length).forEach((name, place) => {
    const [light, dark] = PALETTE[place] ?? ["#000000", "#ffffff"];
    found.set(name, kind(name, name, light, dark, "full"));
  });
  return (node) => found.get(nameOf(node)) ?? others;
}

function rank(found: Kind): number {
  return found.key === "" ? 2 : found.key === "*" ? 1 : 0;
}

function kind(key: string, word: string, light: string, dark: string, fill: Fill): Kind {
  return { key, word, light, dark, fill };
}
