import Box from "@mui/material/Box";
import { useTheme } from "@mui/material/styles";
import useMediaQuery from "@mui/material/useMediaQuery";
import { useCallback, useEffect, useMemo, useRef, type ReactNode } from "react";
import { useVisibleRows } from "../sidepanel/scrolling";
import type { ReturningFocus } from "../sidepanel/useBeside";
import { BodyRow } from "../table/BodyRow";
import { CutTexts } from "../table/cutTexts/CutTexts";
import { HeaderRow } from "../table/HeaderRow";
import type { Selection } from "../table/useSelection";
import type { Order } from "../table/sorting";
import { ROW_PX, tableStyle } from "../table/style";

const CHOICE_WIDTH = "24px";
/** For words that only a screen reader reads. */
const HIDDEN = { position: "absolute", width: 1, height: 1, overflow: "hidden", clipPath: "inset(50%)" } as const;

export interface Column<T> {
  name: string;
  width: string;
  right?: boolean;
  /** Whether the cell is a link to the page of its item. It stays in sight while the others are scrolled sideways. */
  isLink?: boolean;
  /** Name of the order that a click on the header asks for, and whether the largest value comes first then. */
  sort?: string;
  descending?: boolean;
  /** Width on a phone. If a column of the table has one, the others are not shown there. */
  phone?: string;
  /** Whether it is shown only to those who choose it. */
  isExtra?: boolean;
  cell: (item: T) => ReactNode;
}

interface Properties<T> {
  label: string;
  columns: readonly Column<T>[];
  items: readonly T[];
  minWidth: number;
  keyOf: (item: T) => string;
  /** The address of an item's page. */
  addressOf: (item: T) => string;
  /** The item at which the keyboard is, and its words for a screen reader. */
  current?: T | null;
  /** Whether the focus is to go to that item. */
  focus?: ReturningFocus;
  nameOf?: (item: T) => string;
  /** Whether a click anywhere in a row opens its page. */
  opensOnClick?: boolean;
  order?: Order | null;
  sort?: (order: Order | null) => void;
  /** The selected rows, if rows can be selected. */
  selection?: Selection<T>;
  onHover?: (hovered: boolean) => void;
  /** Learns which items can be seen, after each change. */
  onVisible?: ((items: readonly T[]) => void) | undefined;
}

/** A table of which only the visible rows exist. */
export function VirtualTable<T>({
  label,
  columns,
  items,
  minWidth,
  keyOf,
  addressOf,
  current = null,
  focus,
  nameOf,
  opensOnClick = false,
  order,
  sort,
  selection,
  onHover,
  onVisible,
}: Properties<T>) {
  const list = useRef<HTMLDivElement>(null);
  const { breakpoints } = useTheme();
  const isPhone = useMediaQuery(breakpoints.down("sm")) && columns.some(({ phone }) => phone);
  const shown = useMemo(() => (isPhone ? columns.filter(({ phone }) => phone) : columns), [isPhone, columns]);
  const rows = useVisibleRows({ count: items.length, rowPx: ROW_PX, list });
  const wraps = useMediaQuery(breakpoints.down("md"));
  useEffect(() => rows.measure(), [wraps]);
  const range = rows.getVirtualItems();
  const [first, last] = [range[0]?.index ?? 0, range.at(-1)?.index ?? -1];
  useEffect(() => onVisible?.(items.slice(first, last + 1)), [items, first, last, onVisible]);
  const at = current === null ? -1 : items.indexOf(current);
  useEffect(() => {
    // The virtualizer would scroll back to where it was if the window was scrolled just now.
    if (at >= 0 && !isSeen(list.current, at)) rows.scrollToIndex(at, { align: "auto" });
  }, [at]);
  // After each render: the virtualizer adds the rows later than the table.
  useEffect(() => {
    if (focus?.isAsked) returnFocus(list.current, at, focus.done);
  });
  const names = useMemo(() => shown.map(({ name }) => name), [columns, isPhone]);
  const widths = shown.map(({ width, phone }) => (isPhone && phone) || width);
  const template = [...(selection ? [CHOICE_WIDTH] : []), ...widths].join(" ");
  const style = useMemo(() => tableStyle({ template, gap: isPhone ? 2 : 3, ends: isPhone ? 0 : 3, wraps }), [template, isPhone, wraps]);
  const latest = useRef({ selection, items });
  latest.current = { selection, items };
  const choose = useCallback((item: T, range: boolean) => latest.current.selection?.toggle(item, range ? latest.current.items : undefined), []);
  return (
    <>
      <Box role="table" aria-label={label} aria-rowcount={items.length + 1} tabIndex={0} sx={style}>
        <Box sx={{ minWidth: isPhone ? 0 : minWidth }}>
          <HeaderRow
            columns={shown}
            order={order}
            sort={sort}
            chosen={selection?.extentOf(items)}
            chooseAll={selection && (() => selection.toggleAll(items))}
          />
          <div
            ref={list}
            role="rowgroup"
            style={{ position: "relative", height: rows.getTotalSize() }}
            onPointerEnter={(event) => event.pointerType === "mouse" && onHover?.(true)}
            onPointerLeave={() => onHover?.(false)}
          >
            {!wraps && <CutTexts list={list} columns={names} />}
            {range.map(({ index, start }) => {
              const item = items[index];
              if (item === undefined) return null;
              return (
                <BodyRow
                  key={keyOf(item)}
                  item={item}
                  columns={shown}
                  index={index}
                  top={start - rows.options.scrollMargin}
                  to={addressOf(item)}
                  isCurrent={index === at}
                  opensOnClick={opensOnClick}
                  measure={wraps ? rows.measureElement : null}
                  isChosen={selection?.has(item)}
                  choose={choose}
                />
              );
            })}
          </div>
        </Box>
      </Box>
      {current !== null && nameOf && (
        <span role="status" style={HIDDEN}>
          {nameOf(current)}
        </span>
      )}
    </>
  );
}

/** Give the focus to a row, and until it is there to the table; or leave it where the person moved it. */
function returnFocus(list: HTMLElement | null, index: number, done: () => void): void {
  const table = list?.closest<HTMLElement>("[role=table]");
  if (!list || !table) return;
  const held = document.activeElement;
  if (held && held !== document.body && held !== table) return done();
  const row = list.querySelector<HTMLElement>(`[aria-rowindex="${index + 2}"] a`);
  (row ?? table).focus({ preventScroll: true });
  if (row || index < 0) done();
}

/** Whether all of a row is in the window. */
function isSeen(list: HTMLElement | null, index: number): boolean {
  const row = list?.querySelector(`[aria-rowindex="${index + 2}"]`)?.getBoundingClientRect();
  return row !== undefined && row.top >= 0 && row.bottom <= window.innerHeight;
}
