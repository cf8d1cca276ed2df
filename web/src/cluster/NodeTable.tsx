import { useMemo } from "react";
import { bytes } from "../words/amounts";
import { VirtualTable, type Column } from "../words/VirtualTable";
import { stateWord } from "./colours";
import { compareNames } from "./names";
import type { NodeRow } from "./useNodes";

const COLUMNS: Column<NodeRow>[] = [
  { name: "Node", width: "minmax(140px, 2fr)", phone: "minmax(0, 1fr)", isLink: true, cell: (node) => node.name },
  { name: "State", width: "104px", phone: "88px", cell: (node) => stateWord(node.state) },
  { name: "GPUs in use", width: "136px", phone: "112px", right: true, cell: (node) => (node.gpus.total ? `${node.gpus.used} of ${node.gpus.total} ${node.gpuType}` : "") },
  { name: "CPUs in use", width: "112px", right: true, cell: (node) => `${Math.round(node.cpuMillis.used / 1000)} of ${Math.round(node.cpuMillis.total / 1000)}` },
  { name: "Memory in use", width: "152px", right: true, cell: (node) => `${bytes(node.memoryBytes.used)} of ${bytes(node.memoryBytes.total)}` },
  { name: "Place", width: "minmax(120px, 1fr)", cell: (node) => [node.pool, ...node.places].filter(Boolean).join(" · ") },
  { name: "Runs", width: "minmax(120px, 2fr)", cell: (node) => node.holders.join(", ") },
  { name: "Why", width: "minmax(120px, 2fr)", cell: (node) => node.why },
];

/** The same as the map, as a table. */
export function NodeTable({ nodes, addressOf }: { nodes: readonly NodeRow[]; addressOf: (name: string) => string }) {
  const ordered = useMemo(() => [...nodes].sort((a, b) => compareNames(a.name, b.name)), [nodes]);
  return (
    <VirtualTable
      label="Nodes"
      columns={COLUMNS}
      items={ordered}
      minWidth={1080}
      keyOf={({ name }) => name}
      addressOf={({ name }) => addressOf(name)}
    />
  );
}
