import type { SxProps, Theme } from "@mui/material/styles";
import type { Column } from "../common/VirtualTable";

export const ROW_PX = 32;

interface Grid {
  /** The columns of a row, as in `grid-template-columns`. */
  template: string;
  /** Gaps between columns and space at the ends of a row, in units of the theme. */
  gap: number;
  ends: number;
  /** Whether long words wrap, so that rows are as high as their text; otherwise they are cut. */
  wraps: boolean;
}

/** Return the style of a table with its rows and cells, which are plain elements with classes.
 *
 * A style on each cell would be computed again for each row that comes into sight: twice the time of a frame while the table scrolls.
 */
export function tableStyle({ template, gap, ends, wraps }: Grid): SxProps<Theme> {
  return {
    overflowX: "auto",
    "& .table-row": {
      display: "grid",
      gridTemplateColumns: template,
      gap,
      px: ends,
      minHeight: ROW_PX,
      alignItems: "center",
      borderBottom: 1,
      borderColor: "divider",
      bgcolor: "background.default",
      "&.is-head": { color: "text.secondary" },
      "&.is-body": {
        position: "absolute",
        inset: "0 0 auto 0",
        ...(wraps ? { py: 1, boxSizing: "border-box" } : { height: ROW_PX }),
        "&:hover": { backgroundImage: ({ palette }) => covered(palette.action.hover) },
      },
      "&.is-marked, &.is-marked:hover": { backgroundImage: ({ palette }) => covered(palette.action.selected) },
      "&.is-current": { boxShadow: ({ palette }) => `inset 3px 0 ${palette.primary.main}` },
      "&.opens": { cursor: "pointer" },
    },
    // In a narrow window nothing is cut.
    "& .table-cell": wraps ? { overflowWrap: "anywhere", minWidth: 0 } : { overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" },
    "& .table-cell.is-right": { textAlign: "right" },
    "& .table-cell.is-apart": { pl: 3 },
    // It stays in sight while the others are scrolled sideways, and covers them with the background of its row.
    "& .table-cell.is-link": { position: "sticky", left: 0, background: "inherit", zIndex: 1 },
    // Large enough for a finger.
    "& .table-choice": { display: "flex", justifyContent: "center", "& input": { width: 16, height: 16, m: 1, accentColor: "currentColor" } },
  };
}

/** Return the classes of a cell. Numbers stand at the right; words are kept apart from numbers in the column before them. */
export function cellClass<T>({ right, isLink }: Column<T>, before?: Column<T>): string {
  return classes("table-cell", right && "is-right", before?.right && !right && "is-apart", isLink && "is-link");
}

/** Return the classes that are not false, as one text. */
export function classes(...names: (string | false | undefined)[]): string {
  return names.filter(Boolean).join(" ");
}

/** The background of a row under a translucent colour of the theme. */
function covered(colour: string): string {
  return `linear-gradient(${colour}, ${colour})`;
}
