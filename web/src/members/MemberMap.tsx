import Box from "@mui/material/Box";
import { useTheme } from "@mui/material/styles";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent, type MouseEvent } from "react";
import { neighbour, type Direction } from "../cluster/layout";
import { drawCell } from "../cluster/NodeMap";
import { HIDDEN, prepared } from "../words/canvas";
import { useWidth } from "../words/useWidth";
import { cellAt, gridOf, HEADING_PX, type Order } from "./grid";
import { kindOf, told, type Placed } from "./kinds";

interface Properties {
  placed: readonly Placed[];
  order: Order;
  /** Key of the kind that stands out; null: all are the same. */
  marked: string | null;
  /** The chosen rank; null if none is. */
  selected: number | null;
  select: (rank: number) => void;
}

const ARROWS: readonly string[] = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];
const FAINT = 0.18;
const HEIGHT_PX = 420;

/** All members as cells of one canvas. Arrow keys move from cell to cell, Enter chooses a rank. */
export function MemberMap({ placed, order, marked, selected, select }: Properties) {
  const box = useRef<HTMLDivElement>(null);
  const cells = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const width = useWidth(box);
  const [at, setAt] = useState<{ rank: number; byKeyboard: boolean } | null>(null);
  const grid = useMemo(() => gridOf(placed, order, width, HEIGHT_PX), [placed, order, width]);
  const index = at ? grid.cells.findIndex((cell) => cell.placed.rank === at.rank) : -1;
  const cell = grid.cells[index];

  useEffect(() => {
    const paint = cells.current && width ? prepared(cells.current, width, grid.height) : null;
    if (!paint) return;
    paint.fillStyle = theme.palette.text.secondary;
    paint.font = "12px system-ui, sans-serif";
    paint.textBaseline = "middle";
    for (const { text, y } of grid.headings) paint.fillText(text, 0, y + HEADING_PX / 2);
    for (const { placed: each, x, y } of grid.cells) {
      const kind = kindOf(each);
      paint.globalAlpha = marked && marked !== kind.key ? FAINT : 1;
      drawCell(paint, kind, x, y, grid.cell - 1, theme.palette.mode === "dark");
    }
    paint.globalAlpha = 1;
  }, [grid, width, marked, theme]);

  useEffect(() => {
    const paint = overlay.current && width ? prepared(overlay.current, width, grid.height) : null;
    if (!paint) return;
    paint.strokeStyle = theme.palette.text.primary;
    const chosen = grid.cells.find((each) => each.placed.rank === selected);
    for (const [each, line] of [[chosen, 2.5], [cell, 1.5]] as const) {
      if (!each) continue;
      paint.lineWidth = line;
      paint.strokeRect(each.x - 0.5, each.y - 0.5, grid.cell, grid.cell);
    }
  }, [grid, width, cell, selected, theme]);

  const pointed = (event: MouseEvent) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    return grid.cells[cellAt(grid, event.clientX - left, event.clientY - top)]?.placed.rank;
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Enter" && cell) return select(cell.placed.rank);
    if (!ARROWS.includes(event.key)) return;
    event.preventDefault();
    const from = index >= 0 ? index : grid.cells.findIndex((each) => each.placed.rank === selected);
    const next = grid.cells[neighbour(grid, from, event.key as Direction)];
    if (next) setAt({ rank: next.placed.rank, byKeyboard: true });
  };
  return (
    <Box ref={box} sx={{ position: "relative", minWidth: 0 }}>
      <canvas ref={cells} aria-hidden="true" style={{ display: "block" }} />
      <Box
        component="canvas"
        ref={overlay}
        tabIndex={0}
        role="img"
        aria-label={`Map of ${placed.length} members. Arrow keys move, Enter chooses a rank. The table holds the same.`}
        onMouseMove={(event) => {
          const rank = pointed(event);
          if (rank !== at?.rank || at?.byKeyboard) setAt(rank === undefined ? null : { rank, byKeyboard: false });
        }}
        onMouseLeave={() => setAt(null)}
        onBlur={() => setAt(null)}
        onClick={(event) => {
          const rank = pointed(event);
          if (rank !== undefined) select(rank);
        }}
        onKeyDown={press}
        sx={{ position: "absolute", inset: 0, cursor: cell ? "pointer" : "default", "&:focus-visible": { outline: "2px solid", outlineColor: "primary.main", outlineOffset: 2 } }}
      />
      {cell && (
        <Box
          sx={{ position: "absolute", zIndex: 2, pointerEvents: "none", maxWidth: 300, p: 2, border: 1, borderColor: "divider", borderRadius: 1, bgcolor: "background.paper", boxShadow: 3, overflowWrap: "anywhere" }}
          style={{ top: cell.y + grid.cell + 6, ...(cell.x > width / 2 ? { right: width - cell.x } : { left: cell.x }) }}
        >
          <strong>Rank {cell.placed.rank}</strong>
          <div>{told(cell.placed)}</div>
        </Box>
      )}
      <Box aria-live="polite" sx={HIDDEN}>
        {at?.byKeyboard && cell ? `Rank ${cell.placed.rank}: ${told(cell.placed)}` : ""}
      </Box>
    </Box>
  );
}
