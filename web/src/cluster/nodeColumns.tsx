import type { SortKeys } from "../table/sorting";
import { bytes } from "../words/amounts";
import type { Column } from "../common/VirtualTable";
import { stateWord, type Dimension, type Legend, type Readings } from "./colours";
import { KindMark } from "./map/KindMark";
import type { NodeRow } from "./useNodes";

const STATES = ["ready", "cordoned", "draining", "untested", "unhealthy", "notReady"];

/** Values by which the table of nodes is ordered, as the Web API orders them. */
export const SORT_KEYS: SortKeys<NodeRow> = {
  state: ({ state }) => STATES.indexOf(state),
  usedGpus: ({ gpus }) => gpus.used,
  freeGpus: ({ gpus }) => gpus.total - gpus.used,
  usedCpu: ({ cpuMillis }) => cpuMillis.used,
  usedMemory: ({ memoryBytes }) => memoryBytes.used,
  place: ({ pool, places }) => [pool, ...places].join("/"),
  owner: ({ owner }) => owner,
  holder: ({ holders }) => holders[0] ?? "",
};

/** Dimensions of the map that the other columns do not have. */
const READ: ReadonlySet<Dimension> = new Set<Dimension>(["temperature", "idle", "rack"]);

/** Return the columns of the table, with one for what the map's colours mean if no other one has it. */
export function columnsOf(by: Dimension, word: string, legend: Legend, { celsius }: Readings): Column<NodeRow>[] {
  const meaning = (node: NodeRow) => {
    const kind = legend.kindOf(node);
    const degrees = by === "temperature" ? celsius[node.name] : undefined;
    return (
      <>
        <KindMark kind={kind} /> {degrees === undefined ? kind.word : `${degrees} °C`}
      </>
    );
  };
  return [
    { name: "Node", width: "minmax(140px, 2fr)", phone: "minmax(0, 1fr)", isLink: true, cell: (node) => node.name },
    { name: "State", width: "104px", phone: "88px", sort: "state", descending: true, cell: (node) => stateWord(node.state) },
    ...(READ.has(by) ? [{ name: word, width: "176px", phone: "112px", cell: meaning }] : []),
    {
      name: "GPUs in use",
      width: "128px",
      ...(!READ.has(by) && { phone: "112px" }),
      right: true,
      sort: "usedGpus",
      descending: true,
      cell: ({ gpus, gpuType }) => (gpus.total ? `${gpus.used} of ${gpus.total} ${gpuType}` : ""),
    },
    { name: "CPUs in use", width: "104px", right: true, isExtra: true, sort: "usedCpu", descending: true, cell: (node) => `${Math.round(node.cpuMillis.used / 1000)} of ${Math.round(node.cpuMillis.total / 1000)}` },
    { name: "Memory in use", width: "152px", right: true, isExtra: true, sort: "usedMemory", descending: true, cell: (node) => `${bytes(node.memoryBytes.used)} of ${bytes(node.memoryBytes.total)}` },
    { name: "Place", width: "minmax(120px, 2fr)", sort: "place", cell: narrowestFirst },
    { name: "Runs", width: "minmax(120px, 2fr)", sort: "holder", cell: (node) => node.holders.join(", ") },
    { name: "Owner", width: "minmax(80px, 1fr)", sort: "owner", cell: (node) => node.owner },
    { name: "Why", width: "minmax(120px, 3fr)", cell: (node) => node.why },
  ];
}

/** A node's places, the rack first: that is what people look for, and what must not be cut. */
function narrowestFirst({ pool, places }: NodeRow): string {
  return [...places].reverse().concat(pool).filter(Boolean).join(" · ");
}
