/** Where the cells of the map lie: one cell a node, in blocks by the narrowest place (a rack), in sections by pool and wider places. */
import type { Arrow } from "../../canvas/canvas";
import { compareNames } from "../names";
import type { NodeRow } from "../useNodes";

export interface Block {
  /** The narrowest place, such as `rack-7`; empty for nodes without one. */
  title: string;
  nodes: NodeRow[];
}

export interface Section {
  /** Pool and wider places. */
  title: string;
  blocks: Block[];
}

export interface Cell {
  node: NodeRow;
  x: number;
  y: number;
}

export interface PlacedBlock {
  title: string;
  x: number;
  y: number;
  width: number;
  height: number;
  columns: number;
  /** Index of its first cell. */
  first: number;
  count: number;
}

export interface Layout {
  cell: number;
  height: number;
  cells: Cell[];
  blocks: PlacedBlock[];
  headings: { text: string; x: number; y: number; width: number; count: number }[];
  /** Whether blocks have their names above them. */
  hasNames: boolean;
}

export const HEADING_PX = 24;
const SECTION_GAP_PX = 8;
/** A heading has room for its words, however few nodes stand below it. */
const HEADING_WIDTH_PX = 180;
const LARGEST_CELL_PX = 36;
const SMALLEST_CELL_PX = 7;
/** Height of the name above a block. Smaller cells have no names: they would need more room than the nodes. */
export const NAME_PX = 16;
const LEAST_NAMED_CELL_PX = 20;
const CHARACTER_PX = 6.6;
/** Nodes without a place stand in blocks of this many. */
const LOOSE = 64;

/** Return the nodes in sections and blocks, in an order that does not change while nodes come and go. */
export function sectionsOf(nodes: readonly NodeRow[]): Section[] {
  const sections = new Map<string, Map<string, NodeRow[]>>();
  for (const node of nodes) {
    const wide = [node.pool, ...node.places.slice(0, -1)].filter(Boolean).join(" · ");
    const narrow = node.places.at(-1) ?? "";
    const blocks = sections.get(wide) ?? new Map<string, NodeRow[]>();
    sections.set(wide, blocks);
    const block = blocks.get(narrow);
    if (block) block.push(node);
    else blocks.set(narrow, [node]);
  }
  return inOrder(sections).map(([title, blocks]) => ({
    title,
    blocks: inOrder(blocks).flatMap(([title, nodes]) =>
      pieces(nodes.sort((a, b) => compareNames(a.name, b.name)), title ? nodes.length : LOOSE).map((nodes) => ({ title, nodes })),
    ),
  }));
}

/** Return the layout with the largest cells that fits the height; with the smallest cells if none fits. */
export function fitted(sections: readonly Section[], width: number, height: number): Layout {
  let cell = LARGEST_CELL_PX;
  while (cell > SMALLEST_CELL_PX && placedSections(sections, width, cell).height > height) cell--;
  return layout(sections, width, cell);
}

/** Place all cells of this size: blocks in lines within their section, and sections beside each other where they fit. */
export function layout(sections: readonly Section[], width: number, cell: number): Layout {
  const cells: Cell[] = [];
  const blocks: PlacedBlock[] = [];
  const headings: Layout["headings"] = [];
  const placed = placedSections(sections, width, cell);
  for (const { section, x, y, inner } of placed.sections) {
    const count = section.blocks.reduce((sum, block) => sum + block.nodes.length, 0);
    if (placed.top) headings.push({ text: section.title, x, y, width: inner.width, count });
    for (const { block, ...box } of inner.boxes) {
      const [left, top] = [x + box.x, y + placed.top + box.y];
      blocks.push({ ...box, x: left, y: top, title: block.title, first: cells.length, count: block.nodes.length });
      block.nodes.forEach((node, place) =>
        cells.push({ node, x: left + (place % box.columns) * cell, y: top + Math.floor(place / box.columns) * cell }),
      );
    }
  }
  return { cell, height: placed.height, cells, blocks, headings, hasNames: placed.hasNames };
}

interface Inner {
  boxes: { block: Block; x: number; y: number; width: number; height: number; columns: number }[];
  width: number;
  height: number;
}

function placedSections(sections: readonly Section[], width: number, cell: number) {
  const top = sections.length > 1 || sections[0]?.title ? HEADING_PX : 0;
  const hasNames = cell >= LEAST_NAMED_CELL_PX && sections.some(({ blocks }) => blocks.some(({ title }) => title));
  const found: { section: Section; x: number; y: number; inner: Inner }[] = [];
  let [x, y, line] = [0, 0, 0];
  for (const section of sections) {
    const inner = placedBlocks(section, width, cell, hasNames && section.blocks.some(({ title }) => title) ? NAME_PX : 0);
    if (x > 0 && x + inner.width > width) {
      x = 0;
      y += line + SECTION_GAP_PX;
      line = 0;
    }
    found.push({ section, x, y, inner });
    x += inner.width + 3 * SECTION_GAP_PX;
    line = Math.max(line, top + inner.height);
  }
  return { top, hasNames, sections: found, height: y + line + SECTION_GAP_PX };
}

function placedBlocks(section: Section, width: number, cell: number, nameHeight: number): Inner {
  const gap = Math.max(3, Math.round(cell / 3));
  const boxes: Inner["boxes"] = [];
  let [x, y, line, widest] = [0, 0, 0, HEADING_WIDTH_PX];
  for (const block of section.blocks) {
    const columns = Math.max(1, Math.min(Math.ceil(Math.sqrt(block.nodes.length)), Math.floor(width / cell)));
    const size = { width: columns * cell, height: Math.ceil(block.nodes.length / columns) * cell };
    const wide = nameHeight ? Math.max(size.width, Math.ceil(block.title.length * CHARACTER_PX)) : size.width;
    if (x > 0 && x + wide > width) {
      x = 0;
      y += line + gap;
      line = 0;
    }
    boxes.push({ block, x, y: y + nameHeight, columns, ...size });
    x += wide + gap;
    line = Math.max(line, nameHeight + size.height);
    widest = Math.max(widest, x - gap);
  }
  return { boxes, width: Math.min(width, widest), height: y + line };
}

/** Return the index of the cell under a point; -1 if there is none. */
export function cellAt({ blocks, cell }: Layout, x: number, y: number): number {
  for (const block of blocks) {
    const column = Math.floor((x - block.x) / cell);
    const row = Math.floor((y - block.y) / cell);
    const place = row * block.columns + column;
    if (column >= 0 && column < block.columns && row >= 0 && place < block.count) return block.first + place;
  }
  return -1;
}

/** Return the index of the nearest cell in a direction; the same index if there is none. */
export function neighbour({ cells }: { cells: readonly { x: number; y: number }[] }, from: number, direction: Arrow): number {
  const here = cells[from];
  if (!here) return cells.length ? 0 : -1;
  let best = from;
  let least = Infinity;
  cells.forEach(({ x, y }, index) => {
    const across = direction === "ArrowLeft" || direction === "ArrowRight";
    const sign = direction === "ArrowLeft" || direction === "ArrowUp" ? -1 : 1;
    const along = sign * (across ? x - here.x : y - here.y);
    const aside = Math.abs(across ? y - here.y : x - here.x);
    if (along <= 0) return;
    const distance = along + 4 * aside;
    if (distance < least) [best, least] = [index, distance];
  });
  return best;
}

function inOrder<T>(groups: Map<string, T>): [string, T][] {
  return [...groups].sort(([a], [b]) => compareNames(a, b));
}

function pieces<T>(items: T[], size: number): T[][] {
  const found: T[][] = [];
  for (let start = 0; start < items.length; start += size) found.push(items.slice(start, start + size));
  return found;
}
