/** Styles that the header and the rows of a table share. */

const CELL = { overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" } as const;
/** In a narrow window nothing is cut: rows are as high as their text. */
const WRAPPED = { overflowWrap: "anywhere", minWidth: 0 } as const;

/** The cell of a checkbox, which is large enough for a finger. */
export const CHOICE = { display: "flex", justifyContent: "center", "& input": { width: 16, height: 16, m: 1, accentColor: "currentColor" } } as const;

/** A cell that stays in sight while the others are scrolled sideways; it covers them with the background of its row. */
const STICKY = { position: "sticky", left: 0, background: "inherit", zIndex: 1 } as const;

/** The style of a cell of numbers, which stand at the right, or of words. Words are kept apart from the numbers in the column before them. */
export function cellOf({ right = false, isLink = false }: Aligned, before?: Aligned, wraps = false) {
  return { ...(wraps ? WRAPPED : CELL), textAlign: right ? "right" : "left", ...(before?.right && !right && { pl: 3 }), ...(isLink && STICKY) } as const;
}

interface Aligned {
  right?: boolean | undefined;
  isLink?: boolean | undefined;
}

/** The grid of a table's rows. */
export interface Layout {
  display: "grid";
  gridTemplateColumns: string;
  gap: number;
  px: number;
}

/** The background of a row under a translucent colour of the theme. */
export function covered(colour: string): string {
  return `linear-gradient(${colour}, ${colour})`;
}
