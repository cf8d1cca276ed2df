import Box from "@mui/material/Box";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";
import { Link } from "react-router";
import { bytes } from "../words/amounts";
import { stateWord } from "./colours";
import { compareNames } from "./names";
import type { NodeRow } from "./useNodes";

const ROW_PX = 32;
const COLUMNS: { name: string; width: string; right?: boolean; cell: (node: NodeRow) => string }[] = [
  { name: "Node", width: "minmax(140px, 2fr)", cell: (node) => node.name },
  { name: "State", width: "104px", cell: (node) => stateWord(node.state) },
  { name: "GPUs in use", width: "136px", right: true, cell: (node) => (node.gpus.total ? `${node.gpus.used} of ${node.gpus.total} ${node.gpuType}` : "") },
  { name: "CPUs in use", width: "112px", right: true, cell: (node) => `${Math.round(node.cpuMillis.used / 1000)} of ${Math.round(node.cpuMillis.total / 1000)}` },
  { name: "Memory in use", width: "152px", right: true, cell: (node) => `${bytes(node.memoryBytes.used)} of ${bytes(node.memoryBytes.total)}` },
  { name: "Place", width: "minmax(120px, 1fr)", cell: (node) => [node.pool, ...node.places].filter(Boolean).join(" · ") },
  { name: "Runs", width: "minmax(120px, 2fr)", cell: (node) => node.holders.join(", ") },
  { name: "Why", width: "minmax(120px, 2fr)", cell: (node) => node.why },
];
const GRID = { display: "grid", gridTemplateColumns: COLUMNS.map(({ width }) => width).join(" "), gap: 3, px: 3 };
const CELL = { overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" } as const;

/** The same as the map, as a table of which only the visible rows exist. */
export function NodeTable({ nodes, addressOf }: { nodes: readonly NodeRow[]; addressOf: (name: string) => string }) {
  const list = useRef<HTMLDivElement>(null);
  const ordered = useMemo(() => [...nodes].sort((a, b) => compareNames(a.name, b.name)), [nodes]);
  const rows = useWindowVirtualizer({
    count: ordered.length,
    estimateSize: () => ROW_PX,
    overscan: 12,
    scrollMargin: list.current?.offsetTop ?? 0,
  });
  return (
    <Box role="table" aria-label="Nodes" aria-rowcount={ordered.length + 1} tabIndex={0} sx={{ overflowX: "auto" }}>
      <Box sx={{ minWidth: 1080 }}>
        <Box role="row" sx={{ ...GRID, borderBottom: 1, borderColor: "divider", color: "text.secondary", py: 1 }}>
          {COLUMNS.map(({ name, right }) => (
            <Box key={name} role="columnheader" sx={{ ...CELL, textAlign: right ? "right" : "left" }}>
              {name}
            </Box>
          ))}
        </Box>
        <div ref={list} role="rowgroup" style={{ position: "relative", height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((row) => {
            const node = ordered[row.index];
            if (!node) return null;
            return (
              <Box
                key={node.name}
                role="row"
                aria-rowindex={row.index + 2}
                sx={{ ...GRID, position: "absolute", inset: "0 0 auto 0", height: ROW_PX, alignItems: "center", borderBottom: 1, borderColor: "divider", "&:hover": { bgcolor: "action.hover" } }}
                style={{ transform: `translateY(${row.start - rows.options.scrollMargin}px)` }}
              >
                {COLUMNS.map(({ name, right, cell }) => (
                  <Box key={name} role="cell" title={cell(node)} sx={{ ...CELL, textAlign: right ? "right" : "left" }}>
                    {name === "Node" ? <Link to={addressOf(node.name)}>{node.name}</Link> : cell(node)}
                  </Box>
                ))}
              </Box>
            );
          })}
        </div>
      </Box>
    </Box>
  );
}
