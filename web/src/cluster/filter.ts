/** The filter that highlights nodes on the map, as the page's address contains it. */
import { DIMENSIONS, type Dimension, type Legend } from "./colours";
import { orderOf, orderText, type Order } from "../table/sorting";
import { csvTable } from "../words/csv";
import { expanded } from "./names";
import { SORT_KEYS } from "./nodeColumns";
import type { NodeRow } from "./useNodes";

export interface View {
  by: Dimension;
  text: string;
  /** Keys of the legend that are chosen. */
  kinds: string[];
  /** `namespace/name` of a waiting run: the nodes that have to become free for it. */
  room: string;
  asTable: boolean;
  /** The order of the table; null for the natural order of names. */
  order: Order | null;
  /** The time and the GPU of a node's figures, as its panel reads them. */
  since: string;
  gpu: string;
}

/** Return the view in an address; what makes no sense is left out. */
export function viewOf(parameters: URLSearchParams): View {
  const by = parameters.get("by") ?? "";
  return {
    by: by in DIMENSIONS ? (by as Dimension) : "use",
    text: parameters.get("text") ?? "",
    kinds: parameters.getAll("kind"),
    room: parameters.get("room") ?? "",
    asTable: parameters.get("as") === "table",
    order: orderOf(parameters.get("sort"), SORT_KEYS),
    since: parameters.get("since") ?? "",
    gpu: parameters.get("gpu") ?? "",
  };
}

/** Return the address's parameters for a view; defaults are left out. */
export function parametersOf({ by, text, kinds, room, asTable, order, since, gpu }: View): URLSearchParams {
  const parameters = new URLSearchParams();
  if (by !== "use") parameters.set("by", by);
  if (text) parameters.set("text", text);
  for (const kind of kinds) parameters.append("kind", kind);
  if (room) parameters.set("room", room);
  if (asTable) parameters.set("as", "table");
  if (order) parameters.set("sort", orderText(order));
  if (since) parameters.set("since", since);
  if (gpu) parameters.set("gpu", gpu);
  return parameters;
}

/** Return the names of the nodes that fit all filters; null if there is no filter. `making` are the nodes that make room. */
export function markedBy(nodes: readonly NodeRow[], view: View, legend: Legend, making: ReadonlySet<string> | null): ReadonlySet<string> | null {
  const words = view.text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length && !view.kinds.length && !making) return null;
  const fits = (node: NodeRow) => {
    if (making && !making.has(node.name)) return false;
    if (view.kinds.length && !view.kinds.includes(legend.kindOf(node).key)) return false;
    const text = [node.name, node.gpuType, node.pool, node.why, node.owner, node.state, ...node.places, ...node.holders].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  return new Set(nodes.filter(fits).map(({ name }) => name));
}

/** Return the nodes of the steps after which a run starts. */
export function nodesOf(steps: readonly { kind: string; name: string; nodes: string }[]): Set<string> {
  const names = steps.flatMap(({ kind, name, nodes }) => (kind === "cordoned" || kind === "broken" ? [name, ...expanded(nodes)] : expanded(nodes)));
  return new Set(names);
}

/** Return nodes as CSV. */
export function csvOf(nodes: readonly NodeRow[]): string {
  return csvTable(nodes, {
    name: (node) => node.name,
    state: (node) => node.state,
    why: (node) => node.why,
    pool: (node) => node.pool,
    places: (node) => node.places.join("/"),
    gpuType: (node) => node.gpuType,
    gpusUsed: (node) => node.gpus.used,
    gpus: (node) => node.gpus.total,
    cpuMillisUsed: (node) => node.cpuMillis.used,
    cpuMillis: (node) => node.cpuMillis.total,
    memoryBytesUsed: (node) => node.memoryBytes.used,
    memoryBytes: (node) => node.memoryBytes.total,
    runs: (node) => node.holders.join(" "),
    owner: (node) => node.owner,
  });
}
