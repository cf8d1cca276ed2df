/** Texts of cells that have less room than they need. */

export interface CutText {
  column: string;
  text: string;
}

type Cell = Pick<HTMLElement, "scrollWidth" | "clientWidth" | "textContent">;

/** Return the whole texts of the cells that are cut, each with the name of its column. Cells before the first column, such as that of a checkbox, have none. */
export function cutTexts(cells: readonly Cell[], columns: readonly string[]): CutText[] {
  const before = cells.length - columns.length;
  return cells.flatMap((cell, index) => {
    const column = columns[index - before];
    const text = cell.textContent?.trim() ?? "";
    return column !== undefined && text && cell.scrollWidth > cell.clientWidth ? [{ column, text }] : [];
  });
}
