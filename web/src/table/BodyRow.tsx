import Box from "@mui/material/Box";
import { Link, useNavigate } from "react-router";
import type { Column } from "../common/VirtualTable";
import { cellOf, CHOICE, covered, type Layout } from "./cells";

export const ROW_PX = 32;

interface Properties<T> {
  item: T;
  columns: readonly Column<T>[];
  layout: Layout;
  /** Position of the row in the whole table, from 0, and its distance from the top in pixels. */
  index: number;
  top: number;
  to: string;
  /** Whether the keyboard is at this row. */
  isCurrent: boolean;
  opensOnClick: boolean;
  /** Whether it is selected; undefined if rows cannot be. */
  isChosen: boolean | undefined;
  choose: (range: boolean) => void;
  /** Measures the row, whose words wrap; null: it has the usual height, and long words are cut. */
  measure: ((row: HTMLElement | null) => void) | null;
}

/** One row of a table. */
export function BodyRow<T>({ item, columns, layout, index, top, to, isCurrent, opensOnClick, isChosen, choose, measure }: Properties<T>) {
  const navigate = useNavigate();
  const isMarked = isCurrent || isChosen;
  return (
    <Box
      role="row"
      ref={measure}
      data-index={index}
      aria-rowindex={index + 2}
      aria-current={isCurrent || undefined}
      onClick={opensOnClick ? () => navigate(to) : undefined}
      sx={{
        ...layout,
        position: "absolute",
        inset: "0 0 auto 0",
        ...(measure ? { minHeight: ROW_PX, py: 1, boxSizing: "border-box" } : { height: ROW_PX }),
        alignItems: "center",
        cursor: opensOnClick ? "pointer" : "default",
        borderBottom: 1,
        borderColor: "divider",
        boxShadow: isCurrent ? (theme) => `inset 3px 0 ${theme.palette.primary.main}` : "none",
        bgcolor: "background.default",
        backgroundImage: isMarked ? ({ palette }) => covered(palette.action.selected) : "none",
        "&:hover": { backgroundImage: ({ palette }) => covered(isMarked ? palette.action.selected : palette.action.hover) },
      }}
      style={{ transform: `translateY(${top}px)` }}
    >
      {isChosen !== undefined && (
        <Box role="cell" sx={CHOICE} onClick={(event) => event.stopPropagation()}>
          <input
            type="checkbox"
            aria-label={`Select ${lastOf(to)}`}
            checked={isChosen}
            onChange={(event) => choose((event.nativeEvent as MouseEvent).shiftKey)}
          />
        </Box>
      )}
      {columns.map((column, place) => {
        const { name, isLink, cell } = column;
        const content = cell(item);
        const text = typeof content === "string" ? content : undefined;
        return (
          // The direction of its text decides on which side a long one is cut.
          <Box key={name} role="cell" dir={text && "auto"} sx={cellOf(column, columns[place - 1], measure !== null)} title={text}>
            {isLink ? (
              <Link to={to} dir="auto" onClick={(event) => event.stopPropagation()}>
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
}

/** Return the last name in an address. */
function lastOf(address: string): string {
  const path = address.replace(/\?.*$/, "");
  return decodeURIComponent(path.slice(path.lastIndexOf("/") + 1));
}
