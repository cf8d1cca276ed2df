import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import { memo, useRef } from "react";
import { Link } from "react-router";
import { useVisibleRows } from "../sidepanel/scrolling";
import { Age } from "../words/times/Age";
import { kindOf, type Placed } from "./kinds";

const ROW_PX = 36;
const COLUMNS = "48px 88px minmax(100px, 1fr) 72px 104px minmax(100px, 2fr) 64px";
const ROW = { display: "grid", gridTemplateColumns: COLUMNS, gap: 3, px: 3, alignItems: "center", borderBottom: 1, borderColor: "divider" } as const;
const CELL = { overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" } as const;
/** The table styles its rows, so that a row that comes into sight while one scrolls costs no styles of its own. */
const TABLE = {
  minWidth: 676,
  "& [role=row]": ROW,
  "& [role=columnheader], & [role=cell]": CELL,
  "& .number": { textAlign: "right" },
  "& [role=rowgroup] > [role=row]": { position: "absolute", inset: "0 0 auto 0", height: ROW_PX, "&:hover": { bgcolor: "action.hover" } },
} as const;
const NUMBERS = ["Rank", "Attempt"];

/** The same as the map, as a table of which only the visible rows exist. `showLog` is null for people who may not read logs. */
export function MemberTable({ placed, showLog }: { placed: readonly Placed[]; showLog: ((rank: number) => void) | null }) {
  const list = useRef<HTMLDivElement>(null);
  const rows = useVisibleRows({ count: placed.length, rowPx: ROW_PX, list });
  return (
    <Box role="table" aria-label="Members" aria-rowcount={placed.length + 1} tabIndex={0} sx={{ overflowX: "auto" }}>
      <Box sx={TABLE}>
        <Box role="row" sx={{ color: "text.secondary", py: 1 }}>
          {["Rank", "State", "Node", "Attempt", "Started", "Why", ""].map((name) => (
            <div key={name} role="columnheader" className={NUMBERS.includes(name) ? "number" : undefined}>
              {name}
            </div>
          ))}
        </Box>
        <div ref={list} role="rowgroup" style={{ position: "relative", height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ index, start }) => {
            const each = placed[index];
            return each && <MemberRow key={each.rank} each={each} index={index} top={start - rows.options.scrollMargin} showLog={showLog} />;
          })}
        </div>
      </Box>
    </Box>
  );
}

interface RowProperties {
  each: Placed;
  index: number;
  /** Distance from the top of the list in pixels. */
  top: number;
  showLog: ((rank: number) => void) | null;
}

const MemberRow = memo(function MemberRow({ each, index, top, showLog }: RowProperties) {
  const { rank, member } = each;
  const why = [member?.reason, member?.message].filter(Boolean).join(": ");
  return (
    <div role="row" aria-rowindex={index + 2} style={{ transform: `translateY(${top}px)` }}>
      <div role="cell" className="number">
        {rank}
      </div>
      <div role="cell">{kindOf(each).word}</div>
      <div role="cell" title={member?.node}>
        {member?.node && <Link to={`/cluster/${encodeURIComponent(member.node)}`}>{member.node}</Link>}
      </div>
      <div role="cell" className="number">
        {member?.attempt}
      </div>
      <div role="cell">
        <Age time={member?.startedAt} />
      </div>
      <div role="cell" title={why}>
        {why}
      </div>
      <div role="cell">
        {showLog && (
          <Button size="small" onClick={() => showLog(rank)}>
            Log
          </Button>
        )}
      </div>
    </div>
  );
});
