import Box from "@mui/material/Box";
import { useTheme } from "@mui/material/styles";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent, type MouseEvent } from "react";
import { HIDDEN, prepared } from "../words/canvas";
import { useWidth } from "../words/useWidth";
import type { Kind, Legend } from "./colours";
import { stateWord } from "./colours";
import { cellAt, fitted, HEADING_PX, neighbour, sectionsOf, type Direction, type Layout } from "./layout";
import type { NodeRow } from "./useNodes";

interface Props {
  nodes: readonly NodeRow[];
  legend: Legend;
  /** Nodes that stand out; the others are faint. Null: all are the same. */
  marked: ReadonlySet<string> | null;
  /** Name of the node that is shown beside the map. */
  selected: string;
  select: (name: string) => void;
}

const ARROWS: readonly string[] = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
const FAINT = 0.18;

/** All nodes as cells of one canvas. Arrow keys move from cell to cell, Enter opens a node. */
export function NodeMap({ nodes, legend, marked, selected, select }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const cells = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const width = useWidth(box);
  const [at, setAt] = useState("");
  const [byKeyboard, setByKeyboard] = useState(false);
  const names = useMemo(() => nodes.map(({ name, pool, places }) => [name, pool, ...places].join()).join("|"), [nodes]);
  // The places of cells depend on the names alone, so that a change of use moves nothing.
  const places = useMemo(() => fitted(sectionsOf(nodes), width, Math.max(320, window.innerHeight - 260)), [names, width]);
  const layout = useMemo(() => withRows(places, nodes), [places, nodes]);
  const hovered = layout.cells.findIndex(({ node }) => node.name === at);
  const node = layout.cells[hovered]?.node;

  useEffect(() => {
    const canvas = cells.current;
    if (canvas && width) draw(canvas, layout, width, legend, marked, theme.palette.mode === "dark", theme.palette.text.secondary);
  }, [layout, width, legend, marked, theme]);

  useEffect(() => {
    const canvas = overlay.current;
    if (!canvas || !width) return;
    const paint = prepared(canvas, width, layout.height);
    if (!paint) return;
    const chosen = layout.cells.find(({ node }) => node.name === selected);
    paint.strokeStyle = theme.palette.text.primary;
    for (const [cell, line] of [[chosen, 2.5], [layout.cells[hovered], 1.5]] as const) {
      if (!cell) continue;
      paint.lineWidth = line;
      paint.strokeRect(cell.x - 0.5, cell.y - 0.5, layout.cell, layout.cell);
    }
  }, [layout, width, hovered, selected, theme]);

  const pointed = (event: MouseEvent) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    return layout.cells[cellAt(layout, event.clientX - left, event.clientY - top)]?.node.name ?? "";
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Enter" && node) return select(node.name);
    if (!ARROWS.includes(event.key)) return;
    event.preventDefault();
    const from = hovered >= 0 ? hovered : layout.cells.findIndex(({ node }) => node.name === selected);
    setByKeyboard(true);
    setAt(layout.cells[neighbour(layout, from, event.key as Direction)]?.node.name ?? "");
  };
  const place = layout.cells[hovered];
  return (
    <Box ref={box} sx={{ position: "relative", minWidth: 0 }}>
      <canvas ref={cells} aria-hidden="true" style={{ display: "block" }} />
      <Box
        component="canvas"
        ref={overlay}
        tabIndex={0}
        role="img"
        aria-label={`Map of ${nodes.length} nodes. Arrow keys move, Enter opens a node. The table holds the same.`}
        onMouseMove={(event) => {
          setByKeyboard(false);
          setAt(pointed(event));
        }}
        onMouseLeave={() => setAt("")}
        onBlur={() => setAt("")}
        onClick={(event) => {
          const name = pointed(event);
          if (name) select(name);
        }}
        onKeyDown={press}
        sx={{ position: "absolute", inset: 0, cursor: node ? "pointer" : "default", "&:focus-visible": { outline: "2px solid", outlineColor: "primary.main", outlineOffset: 2 } }}
      />
      {node && place && (
        <Box
          sx={{
            position: "absolute",
            zIndex: 2,
            pointerEvents: "none",
            maxWidth: 300,
            p: 2,
            border: 1,
            borderColor: "divider",
            borderRadius: 1,
            bgcolor: "background.paper",
            boxShadow: 3,
            overflowWrap: "anywhere",
          }}
          style={{ top: place.y + layout.cell + 6, ...(place.x > width / 2 ? { right: width - place.x } : { left: place.x }) }}
        >
          <strong>{node.name}</strong>
          <div>{told(node)}</div>
          {node.places.length > 0 && <Box sx={{ color: "text.secondary" }}>{node.places.join(" · ")}</Box>}
        </Box>
      )}
      <Box aria-live="polite" sx={HIDDEN}>
        {byKeyboard && node ? `${node.name}: ${told(node)}` : ""}
      </Box>
    </Box>
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

function draw(
  canvas: HTMLCanvasElement,
  layout: Layout,
  width: number,
  legend: Legend,
  marked: ReadonlySet<string> | null,
  dark: boolean,
  words: string,
) {
  const paint = prepared(canvas, width, layout.height);
  if (!paint) return;
  paint.fillStyle = words;
  paint.font = "12px system-ui, sans-serif";
  paint.textBaseline = "middle";
  for (const { text, x, y, width, count } of layout.headings)
    paint.fillText(`${text || "No place known"}: ${count}`, x, y + HEADING_PX / 2, width);
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
