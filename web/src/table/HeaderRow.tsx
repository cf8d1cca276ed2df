import Box from "@mui/material/Box";
import type { Column } from "../common/VirtualTable";
import { nextOrder, type Order } from "./sorting";
import { cellClass } from "./style";

interface Properties<T> {
  columns: readonly Column<T>[];
  order?: Order | null | undefined;
  sort?: ((order: Order | null) => void) | undefined;
  /** How many of the rows are selected; undefined if rows cannot be. */
  chosen?: "none" | "some" | "all" | undefined;
  chooseAll?: (() => void) | undefined;
}

/** The header of a table. A click on a column orders the rows by it. */
export function HeaderRow<T>({ columns, order = null, sort, chosen, chooseAll }: Properties<T>) {
  return (
    <div role="row" className="table-row is-head">
      {chosen !== undefined && (
        <div role="columnheader" className="table-choice">
          <input
            type="checkbox"
            aria-label="Select all rows"
            checked={chosen === "all"}
            ref={(box) => {
              if (box) box.indeterminate = chosen === "some";
            }}
            onChange={chooseAll}
          />
        </div>
      )}
      {columns.map((column, place) => {
        const { name, sort: by, descending = false } = column;
        const isOrdered = by !== undefined && order?.by === by;
        const arrow = isOrdered ? (order.descending ? " ↓" : " ↑") : "";
        return (
          <div
            key={name}
            role="columnheader"
            aria-sort={isOrdered ? (order.descending ? "descending" : "ascending") : undefined}
            className={cellClass(column, columns[place - 1])}
          >
            {by !== undefined && sort ? (
              <Box
                component="button"
                type="button"
                onClick={() => sort(nextOrder(order, by, descending))}
                sx={{ all: "unset", cursor: "pointer", lineHeight: "28px", "&:hover, &:focus-visible": { color: "text.primary", textDecoration: "underline" }, "&:focus-visible": { outline: "2px solid", outlineColor: "primary.main" } }}
              >
                {name}
                <span aria-hidden>{arrow}</span>
              </Box>
            ) : (
              name
            )}
          </div>
        );
      })}
    </div>
  );
}
