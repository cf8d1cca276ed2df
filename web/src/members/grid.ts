/** Where the cells of the grid of members lie. */
import { compareNames } from "../cluster/names";
import { kindOf, KINDS, type Placed } from "./kinds";

export const ORDERS = { rank: "Rank", state: "State", node: "Node" } as const;
export type Order = keyof typeof ORDERS;

export interface Cell {
  placed: Placed;
  x: number;
  y: number;
}

export interface Grid {
  cell: number;
  height: number;
  cells: Cell[];
  headings: { text: string; y: number }[];
}

export const HEADING_PX = 22;
const LARGEST_CELL_PX = 24;
const SMALLEST_CELL_PX = 7;

interface Group {
  title: string;
  placed: Placed[];
}

/** Return the grid with the largest cells that fits the height; with the smallest ones if none fits. */
export function gridOf(placed: readonly Placed[], order: Order, width: number, height: number): Grid {
  const groups = groupsOf(placed, order);
  let cell = LARGEST_CELL_PX;
  while (cell > SMALLEST_CELL_PX && laidOut(groups, order, width, cell).height > height) cell--;
  return laidOut(groups, order, width, cell);
}

/** Return the index of the cell under a point; -1 if there is none. */
export function cellAt({ cells, cell }: Grid, x: number, y: number): number {
  return cells.findIndex((each) => x >= each.x && x < each.x + cell && y >= each.y && y < each.y + cell);
}

function groupsOf(placed: readonly Placed[], order: Order): Group[] {
  if (order === "rank") return [{ title: "", placed: [...placed] }];
  const groups = new Map<string, Placed[]>();
  for (const each of placed) {
    const key = order === "state" ? kindOf(each).key : (each.member?.node ?? "");
    const group = groups.get(key);
    if (group) group.push(each);
    else groups.set(key, [each]);
  }
  if (order === "state")
    return Object.values(KINDS).flatMap(({ key, word }) => {
      const found = groups.get(key);
      return found ? [{ title: `${word}: ${found.length.toLocaleString()}`, placed: found }] : [];
    });
  // Ranks without a node come last.
  return [...groups].sort(([a], [b]) => (!a || !b ? b.length - a.length : compareNames(a, b))).map(([title, found]) => ({ title, placed: found }));
}

/** Groups by state stand below each other with a heading; groups by node stand in a line, with a gap between them. */
function laidOut(groups: readonly Group[], order: Order, width: number, cell: number): Grid {
  const cells: Cell[] = [];
  const headings: Grid["headings"] = [];
  const columns = Math.max(1, Math.floor(width / cell));
  const gap = Math.max(2, Math.round(cell / 3));
  let [x, y] = [0, 0];
  for (const { title, placed } of groups) {
    if (order === "state") {
      headings.push({ text: title, y });
      [x, y] = [0, y + HEADING_PX];
    } else if (x > 0 && x + Math.min(placed.length, columns) * cell > width) [x, y] = [0, y + cell + gap];
    for (const each of placed) {
      if (x + cell > width && x > 0) [x, y] = [0, y + cell];
      cells.push({ placed: each, x, y });
      x += cell;
    }
    if (order === "state") [x, y] = [0, y + cell + gap];
    else x += gap;
  }
  return { cell, height: y + (order === "state" ? 0 : cell), cells, headings };
}
