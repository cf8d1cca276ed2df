import Box from "@mui/material/Box";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useRef, type ReactNode } from "react";
import { Link, useNavigate } from "react-router";

const ROW_PX = 32;
const CELL = { overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" } as const;

export interface Column<T> {
  name: string;
  width: string;
  right?: boolean;
  /** Whether the cell is a link to the page of its item. */
  isLink?: boolean;
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
  /** The row that the keyboard has chosen; -1 for none. */
  selected?: number;
  /** Whether a click anywhere in a row opens its page. */
  opensOnClick?: boolean;
}

/** A table of which only the visible rows exist. */
export function VirtualTable<T>({
  label,
  columns,
  items,
  minWidth,
  keyOf,
  addressOf,
  selected = -1,
  opensOnClick = false,
}: Properties<T>) {
  const list = useRef<HTMLDivElement>(null);
  const navigate = useNavigate();
  const rows = useWindowVirtualizer({
    count: items.length,
    estimateSize: () => ROW_PX,
    overscan: 12,
    scrollMargin: list.current?.offsetTop ?? 0,
  });
  const grid = { display: "grid", gridTemplateColumns: columns.map(({ width }) => width).join(" "), gap: 3, px: 3 };
  return (
    <Box role="table" aria-label={label} aria-rowcount={items.length + 1} tabIndex={0} sx={{ overflowX: "auto" }}>
      <Box sx={{ minWidth }}>
        <Box role="row" sx={{ ...grid, borderBottom: 1, borderColor: "divider", color: "text.secondary", py: 1 }}>
          {columns.map(({ name, right }) => (
            <Box key={name} role="columnheader" sx={{ ...CELL, textAlign: right ? "right" : "left" }}>
              {name}
            </Box>
          ))}
        </Box>
        <div ref={list} role="rowgroup" style={{ position: "relative", height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((row) => {
            const item = items[row.index];
            if (item === undefined) return null;
            const to = addressOf(item);
            return (
              <Box
                key={keyOf(item)}
                role="row"
                aria-rowindex={row.index + 2}
                aria-selected={row.index === selected}
                onClick={opensOnClick ? () => navigate(to) : undefined}
                sx={{
                  ...grid,
                  position: "absolute",
                  inset: "0 0 auto 0",
                  height: ROW_PX,
                  alignItems: "center",
                  cursor: opensOnClick ? "pointer" : "default",
                  borderBottom: 1,
                  borderColor: "divider",
                  bgcolor: row.index === selected ? "action.selected" : "transparent",
                  "&:hover": { bgcolor: "action.hover" },
                }}
                style={{ transform: `translateY(${row.start - rows.options.scrollMargin}px)` }}
              >
                {columns.map(({ name, right, isLink, cell }) => {
                  const content = cell(item);
                  return (
                    <Box
                      key={name}
                      role="cell"
                      sx={{ ...CELL, textAlign: right ? "right" : "left" }}
                      title={typeof content === "string" ? content : undefined}
                    >
                      {isLink ? (
                        <Link to={to} onClick={(event) => event.stopPropagation()}>
                          {content}
                        </Link>
                      ) : (
                        content
                      )}
                    </Box>
                  );
                })}
              </Box>
            );
          })}
        </div>
      </Box>
    </Box>
  );
}
