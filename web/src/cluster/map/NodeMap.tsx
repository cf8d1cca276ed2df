import { useTheme } from "@mui/material/styles";
import { useCallback, useMemo, useRef } from "react";
import { CanvasMap } from "../../canvas/CanvasMap";
import { useWidth } from "../../canvas/useWidth";
import type { Kind, Legend } from "../colours";
import { stateWord } from "../colours";
import { cellAt, fitted, HEADING_PX, NAME_PX, neighbour, sectionsOf, type Layout } from "./layout";
import type { NodeRow } from "../useNodes";

interface Props {
  nodes: readonly NodeRow[];
  legend: Legend;
  /** Nodes that stand out; the others are faint. Null: all are the same. */
  marked: ReadonlySet<string> | null;
  /** Name of the node that is shown beside the map. */
  selected: string;
  select: (name: string) => void;
}

/** Opacity of nodes that are not highlighted. */
export const FAINT = 0.18;

/** All nodes as cells of one canvas. Arrow keys move from cell to cell, Enter opens a node. */
export function NodeMap({ nodes, legend, marked, selected, select }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const { palette } = useTheme();
  const width = useWidth(box);
  const names = useMemo(() => nodes.map(({ name, pool, places }) => [name, pool, ...places].join()).join("|"), [nodes]);
  // The places of cells depend on the names alone, so that a change of use moves nothing.
  const places = useMemo(() => fitted(sectionsOf(nodes), width, Math.max(320, window.innerHeight - 260)), [names, width]);
  const layout = useMemo(() => withRows(places, nodes), [places, nodes]);
  const draw = useCallback(
    (paint: CanvasRenderingContext2D) => drawNodes(paint, layout, legend, marked, palette.mode === "dark", palette.text.secondary),
    [layout, legend, marked, palette],
  );
  return (
    <CanvasMap
      box={box}
      label={`Map of ${nodes.length} nodes. Arrow keys move, Enter opens a node. The table holds the same.`}
      items={layout.cells}
      keyOf={({ node }) => node.name}
      boxOf={({ x, y }) => ({ x: x - 0.5, y: y - 0.5, width: layout.cell, height: layout.cell })}
      width={width}
      height={layout.height}
      draw={draw}
      itemAt={(x, y) => cellAt(layout, x, y)}
      beside={(from, key) => neighbour(layout, from, key)}
      selected={selected}
      select={select}
      told={({ node }) => ({ title: node.name, words: told(node), more: node.places.join(" · ") })}
    />
  );
}

/** Say what a node does, in one line. */
export function told(node: NodeRow): string {
  const gpus = node.gpus.total ? `${node.gpus.used} of ${node.gpus.total} ${node.gpuType || "GPUs"} in use` : "no GPUs";
  const parts = [stateWord(node.state), gpus];
  if (node.why) parts.push(node.why);
  if (node.holders.length) parts.push(node.holders.join(", "));
  return parts.join("; ");
}

function withRows(layout: Layout, nodes: readonly NodeRow[]): Layout {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  return { ...layout, cells: layout.cells.map((cell) => ({ ...cell, node: byName.get(cell.node.name) ?? cell.node })) };
}

function drawNodes(
  paint: CanvasRenderingContext2D,
  layout: Layout,
  legend: Legend,
  marked: ReadonlySet<string> | null,
  dark: boolean,
  words: string,
) {
  paint.fillStyle = words;
  paint.font = "12px system-ui, sans-serif";
  paint.textBaseline = "middle";
  for (const { text, x, y, width, count } of layout.headings)
    paint.fillText(`${text || "No place known"}: ${count}`, x, y + HEADING_PX / 2, width);
  paint.font = "11px system-ui, sans-serif";
  if (layout.hasNames) for (const { title, x, y } of layout.blocks) paint.fillText(title, x, y - NAME_PX / 2);
  for (const { node, x, y } of layout.cells) {
    paint.globalAlpha = marked && !marked.has(node.name) ? FAINT : 1;
    drawCell(paint, legend.kindOf(node), x, y, layout.cell - 1, dark);
  }
  paint.globalAlpha = 1;
}

/** Draw one cell: full, half full, hollow, or crossed out. */
export function drawCell(paint: CanvasRenderingContext2D, kind: Kind, x: number, y: number, size: number, dark: boolean) {
  const colour = dark ? kind.dark : kind.light;
  paint.fillStyle = colour;
  paint.strokeStyle = colour;
  paint.lineWidth = 1;
  if (kind.fill === "full") return paint.fillRect(x, y, size, size);
  paint.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  if (kind.fill === "part") paint.fillRect(x, y + size / 2, size, size / 2);
  if (kind.fill !== "crossed") return;
  paint.beginPath();
  paint.moveTo(x + 1, y + 1);
  paint.lineTo(x + size - 1, y + size - 1);
  paint.moveTo(x + size - 1, y + 1);
  paint.lineTo(x + 1, y + size - 1);
  paint.stroke();
}
