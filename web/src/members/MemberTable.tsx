import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import { useRef } from "react";
import { Link } from "react-router";
import { useVisibleRows } from "../beside/scrolling";
import { Age } from "../words/Age";
import { kindOf, type Placed } from "./kinds";

const ROW_PX = 36;
const COLUMNS = "48px 88px minmax(100px, 1fr) 64px 96px minmax(100px, 2fr) 64px";
const ROW = { display: "grid", gridTemplateColumns: COLUMNS, gap: 3, px: 3, alignItems: "center" } as const;
const CELL = { overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" } as const;
const RIGHT = { ...CELL, textAlign: "right" } as const;

/** The same as the map, as a table of which only the visible rows exist. `showLog` is null for people who may not read logs. */
export function MemberTable({ placed, showLog }: { placed: readonly Placed[]; showLog: ((rank: number) => void) | null }) {
  const list = useRef<HTMLDivElement>(null);
  const rows = useVisibleRows({ count: placed.length, rowPx: ROW_PX, list });
  return (
    <Box role="table" aria-label="Members" aria-rowcount={placed.length + 1} tabIndex={0} sx={{ overflowX: "auto" }}>
      <Box sx={{ minWidth: 660 }}>
        <Box role="row" sx={{ ...ROW, borderBottom: 1, borderColor: "divider", color: "text.secondary", py: 1 }}>
          {["Rank", "State", "Node", "Attempt", "Started", "Why", ""].map((name) => (
            <Box key={name} role="columnheader" sx={name === "Rank" || name === "Attempt" ? RIGHT : CELL}>
              {name}
            </Box>
          ))}
        </Box>
        <div ref={list} role="rowgroup" style={{ position: "relative", height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((row) => {
            const each = placed[row.index];
            if (!each) return null;
            const { rank, member } = each;
            const why = [member?.reason, member?.message].filter(Boolean).join(": ");
            return (
              <Box
                key={rank}
                role="row"
                aria-rowindex={row.index + 2}
                sx={{ ...ROW, position: "absolute", inset: "0 0 auto 0", height: ROW_PX, borderBottom: 1, borderColor: "divider", "&:hover": { bgcolor: "action.hover" } }}
                style={{ transform: `translateY(${row.start - rows.options.scrollMargin}px)` }}
              >
                <Box role="cell" sx={RIGHT}>
                  {rank}
                </Box>
                <Box role="cell" sx={CELL}>
                  {kindOf(each).word}
                </Box>
                <Box role="cell" title={member?.node} sx={CELL}>
                  {member?.node && <Link to={`/cluster/${encodeURIComponent(member.node)}`}>{member.node}</Link>}
                </Box>
                <Box role="cell" sx={RIGHT}>
                  {member?.attempt}
                </Box>
                <Box role="cell" sx={CELL}>
                  <Age time={member?.startedAt} />
                </Box>
                <Box role="cell" title={why} sx={CELL}>
                  {why}
                </Box>
                <Box role="cell">
                  {showLog && (
                    <Button size="small" onClick={() => showLog(rank)}>
                      Log
                    </Button>
                  )}
                </Box>
              </Box>
            );
          })}
        </div>
      </Box>
    </Box>
  );
}
