import Box from "@mui/material/Box";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useRef } from "react";
import { Link, useNavigate } from "react-router";
import { COLUMNS } from "./columns";
import type { Row } from "./rows";

const ROW_PX = 32;
const GRID = { display: "grid", gridTemplateColumns: COLUMNS.map((column) => column.width).join(" "), gap: 3, px: 3 };
const CELL = { overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" } as const;

/** A table of runs of which only the visible rows exist. `selected` is the row of the keyboard. */
export function RunTable({ runs, selected }: { runs: readonly Row[]; selected: number }) {
  const list = useRef<HTMLDivElement>(null);
  const navigate = useNavigate();
  const rows = useWindowVirtualizer({
    count: runs.length,
    estimateSize: () => ROW_PX,
    overscan: 12,
    scrollMargin: list.current?.offsetTop ?? 0,
  });
  return (
    <Box role="table" aria-label="Runs" aria-rowcount={runs.length + 1} sx={{ overflowX: "auto" }}>
      <Box sx={{ minWidth: 960 }}>
        <Box role="row" sx={{ ...GRID, borderBottom: 1, borderColor: "divider", color: "text.secondary", py: 1 }}>
          {COLUMNS.map(({ name, right }) => (
            <Box key={name} role="columnheader" sx={{ ...CELL, textAlign: right ? "right" : "left" }}>
              {name}
            </Box>
          ))}
        </Box>
        <div ref={list} role="rowgroup" style={{ position: "relative", height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((row) => {
            const run = runs[row.index];
            if (!run) return null;
            const to = addressOf(run);
            return (
              <Box
                key={run.uid}
                role="row"
                aria-rowindex={row.index + 2}
                aria-selected={row.index === selected}
                onClick={() => navigate(to)}
                sx={{
                  ...GRID,
                  position: "absolute",
                  inset: "0 0 auto 0",
                  height: ROW_PX,
                  alignItems: "center",
                  cursor: "pointer",
                  borderBottom: 1,
                  borderColor: "divider",
                  bgcolor: row.index === selected ? "action.selected" : "transparent",
                  "&:hover": { bgcolor: "action.hover" },
                }}
                style={{ transform: `translateY(${row.start - rows.options.scrollMargin}px)` }}
              >
                {COLUMNS.map(({ name, right, cell }) => {
                  const content = cell(run);
                  return (
                    <Box
                      key={name}
                      role="cell"
                      sx={{ ...CELL, textAlign: right ? "right" : "left" }}
                      title={typeof content === "string" ? content : undefined}
                    >
                      {name === "Name" ? (
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

/** The address of a run's page. */
export function addressOf(run: Pick<Row, "namespace" | "name">): string {
  return `/runs/${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.name)}`;
}
