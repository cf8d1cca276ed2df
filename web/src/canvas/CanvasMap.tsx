import Box from "@mui/material/Box";
import { useTheme } from "@mui/material/styles";
import { useEffect, useRef, useState, type CSSProperties, type KeyboardEvent, type MouseEvent, type ReactNode, type RefObject } from "react";
import { HIDDEN, isArrow, prepared, type Arrow } from "./canvas";

export interface Rectangle {
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Told {
  title: string;
  words: string;
  more?: string;
}

interface Properties<Item> {
  /** The element around the map, whose width the caller measures to place the items. */
  box: RefObject<HTMLDivElement | null>;
  label: string;
  items: readonly Item[];
  /** The key of a choice; several items may have the same key. */
  keyOf: (item: Item) => string;
  /** The outline of an item in pixels of the whole map. */
  boxOf: (item: Item) => Rectangle;
  width: number;
  height: number;
  /** Height of the part that is seen at once; a higher map scrolls. Without it all of the map is seen. */
  viewHeight?: number;
  /** Height at the top of the view that stays while the map scrolls. */
  headHeight?: number;
  /** Draw the view that begins `top` pixels below the upper edge of the map, and is `height` pixels high. */
  draw: (paint: CanvasRenderingContext2D, top: number, height: number) => void;
  /** Return the index of the item at a point of the map; -1 if there is none. */
  itemAt: (x: number, y: number) => number;
  /** Return the index of the item that an arrow key leads to. */
  beside: (from: number, key: Arrow) => number;
  /** Key of the items that are shown beside the map. */
  selected: string;
  select: (key: string) => void;
  told: (item: Item) => Told;
}

const NOTHING = { index: -1, key: "", byKeyboard: false };
const TIP_GAP_PX = 6;

/** Items on one canvas, with an outline and words for the one under the pointer. Arrow keys move from item to item, Enter chooses one. Only the view is drawn, so that the map may be of any height. */
export function CanvasMap<Item>({ box, label, items, keyOf, boxOf, width, height, viewHeight = height, headHeight = 0, draw, itemAt, beside, selected, select, told }: Properties<Item>) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const [scrolled, setScrolled] = useState(0);
  const [marked, setMarked] = useState(NOTHING);
  const shown = Math.min(height, viewHeight);
  const top = Math.max(0, Math.min(scrolled, height - shown));
  const at = placeOf(items, keyOf, marked);
  const item = items[at];

  useEffect(() => {
    const paint = canvas.current && width ? prepared(canvas.current, width, shown) : null;
    if (paint) draw(paint, top, shown);
  }, [draw, width, shown, top]);

  useEffect(() => {
    const paint = overlay.current && width ? prepared(overlay.current, width, shown) : null;
    if (!paint) return;
    paint.strokeStyle = theme.palette.text.primary;
    paint.beginPath();
    paint.rect(0, headHeight && top ? headHeight : 0, width, shown);
    paint.clip();
    items.forEach((each, index) => {
      const isSelected = selected !== "" && keyOf(each) === selected;
      if (!isSelected && index !== at) return;
      const place = boxOf(each);
      paint.lineWidth = isSelected ? 2.5 : 1.5;
      paint.strokeRect(place.x, place.y - top, place.width, place.height);
    });
  }, [items, keyOf, boxOf, width, shown, top, headHeight, at, selected, theme]);

  const mark = (index: number, byKeyboard: boolean) => {
    const found = items[index];
    setMarked(found ? { index, key: keyOf(found), byKeyboard } : NOTHING);
  };
  const pointed = (event: MouseEvent) => {
    const place = event.currentTarget.getBoundingClientRect();
    const y = event.clientY - place.top;
    return top && y < headHeight ? -1 : itemAt(event.clientX - place.left, y + top);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Enter" && item) return select(keyOf(item));
    if (!isArrow(event.key)) return;
    event.preventDefault();
    const from = at >= 0 ? at : items.findIndex((each) => keyOf(each) === selected);
    const next = beside(from, event.key);
    const found = items[next];
    if (found) box.current?.scrollTo({ top: seenFrom(boxOf(found), top, shown, headHeight) });
    mark(next, true);
  };
  const words = item && told(item);
  return (
    <Box
      ref={box}
      onScroll={(event) => setScrolled(event.currentTarget.scrollTop)}
      sx={{ position: "relative", minWidth: 0, ...(shown < height && { overflowY: "auto", overflowX: "hidden" }) }}
      style={shown < height ? { height: shown } : undefined}
    >
      <div style={{ height }}>
        <Box sx={{ position: "sticky", top: 0 }} style={{ height: shown }}>
          <canvas ref={canvas} aria-hidden="true" style={{ display: "block" }} />
          <Box
            component="canvas"
            ref={overlay}
            tabIndex={0}
            role="img"
            aria-label={label}
            onMouseMove={(event) => {
              const index = pointed(event);
              if (index !== at || marked.byKeyboard) mark(index, false);
            }}
            onMouseLeave={() => setMarked(NOTHING)}
            onBlur={() => setMarked(NOTHING)}
            onClick={(event) => {
              const found = items[pointed(event)];
              if (found) select(keyOf(found));
            }}
            onKeyDown={press}
            sx={{
              position: "absolute",
              inset: 0,
              cursor: item ? "pointer" : "default",
              "&:focus-visible": { outline: "2px solid", outlineColor: "primary.main", outlineOffset: shown < height ? -2 : 2 },
            }}
          />
          {words && (
            <Tip style={tipPlace(boxOf(item), top, width, shown < height ? shown : Infinity)}>
              <strong>{words.title}</strong>
              <div>{words.words}</div>
              {words.more && <Box sx={{ color: "text.secondary" }}>{words.more}</Box>}
            </Tip>
          )}
        </Box>
      </div>
      <Box aria-live="polite" sx={HIDDEN}>
        {marked.byKeyboard && words ? `${words.title}: ${words.words}` : ""}
      </Box>
    </Box>
  );
}

/** Words beside the pointer. */
export function Tip({ style, children }: { style: CSSProperties; children: ReactNode }) {
  return (
    <Box
      sx={{ position: "absolute", zIndex: 2, pointerEvents: "none", maxWidth: 320, p: 2, border: 1, borderColor: "divider", borderRadius: 1, bgcolor: "background.paper", boxShadow: 3, overflowWrap: "anywhere" }}
      style={style}
    >
      {children}
    </Box>
  );
}

/** Return the index of the marked item, also after other items have come or gone. */
function placeOf<Item>(items: readonly Item[], keyOf: (item: Item) => string, { index, key }: typeof NOTHING): number {
  if (index < 0) return -1;
  const there = items[index];
  return there !== undefined && keyOf(there) === key ? index : items.findIndex((item) => keyOf(item) === key);
}

/** Return where the view has to begin to contain an item; where it begins now if it does. */
function seenFrom({ y, height }: Rectangle, top: number, shown: number, head: number): number {
  if (y - head < top) return Math.max(0, y - head - 2);
  return Math.max(top, y + height + 2 - shown);
}

/** Return where words about an item stand: below it, or above it in the lower half of a view that scrolls. */
function tipPlace({ x, y, width: wide, height: high }: Rectangle, top: number, width: number, shown: number): CSSProperties {
  const from = y - top;
  return {
    ...(from > shown / 2 ? { bottom: shown - from + TIP_GAP_PX } : { top: from + high + TIP_GAP_PX }),
    ...(x > width / 2 ? { right: Math.max(0, width - x - wide) } : { left: Math.max(0, x) }),
  };
}
