import { useTheme } from "@mui/material/styles";
import { useCallback, useMemo, useRef } from "react";
import { neighbour } from "../cluster/map/layout";
import { drawCell, FAINT } from "../cluster/map/NodeMap";
import { CanvasMap } from "../canvas/CanvasMap";
import { useWidth } from "../canvas/useWidth";
import { cellAt, gridOf, HEADING_PX, type Order } from "./grid";
import { kindOf, told, type Placed } from "./kinds";

interface Properties {
  placed: readonly Placed[];
  order: Order;
  /** Key of the highlighted kind; null: no kind is highlighted. */
  marked: string | null;
  /** The chosen rank; null if none is. */
  selected: number | null;
  select: (rank: number) => void;
}

const HEIGHT_PX = 420;

/** All members as cells of one canvas. Arrow keys move from cell to cell, Enter chooses a rank. */
export function MemberMap({ placed, order, marked, selected, select }: Properties) {
  const box = useRef<HTMLDivElement>(null);
  const { palette } = useTheme();
  const width = useWidth(box);
  const grid = useMemo(() => gridOf(placed, order, width, HEIGHT_PX), [placed, order, width]);
  const draw = useCallback(
    (paint: CanvasRenderingContext2D) => {
      paint.fillStyle = palette.text.secondary;
      paint.font = "12px system-ui, sans-serif";
      paint.textBaseline = "middle";
      for (const { text, y } of grid.headings) paint.fillText(text, 0, y + HEADING_PX / 2);
      for (const { placed: member, x, y } of grid.cells) {
        const kind = kindOf(member);
        paint.globalAlpha = marked && marked !== kind.key ? FAINT : 1;
        drawCell(paint, kind, x, y, grid.cell - 1, palette.mode === "dark");
      }
      paint.globalAlpha = 1;
    },
    [grid, marked, palette],
  );
  return (
    <CanvasMap
      box={box}
      label={`Map of ${placed.length} members. Arrow keys move, Enter chooses a rank. The table holds the same.`}
      items={grid.cells}
      keyOf={({ placed: { rank } }) => `${rank}`}
      boxOf={({ x, y }) => ({ x: x - 0.5, y: y - 0.5, width: grid.cell, height: grid.cell })}
      width={width}
      height={grid.height}
      draw={draw}
      itemAt={(x, y) => cellAt(grid, x, y)}
      beside={(from, key) => neighbour(grid, from, key)}
      selected={selected === null ? "" : `${selected}`}
      select={(rank) => select(Number(rank))}
      told={({ placed: member }) => ({ title: `Rank ${member.rank}`, words: told(member) })}
    />
  );
}
