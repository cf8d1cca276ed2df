import Box from "@mui/material/Box";
import type { Column } from "../common/VirtualTable";
import { cellOf, CHOICE, type Layout } from "./cells";
import { nextOrder, type Order } from "./sorting";

interface Properties<T> {
  columns: readonly Column<T>[];
  layout: Layout;
  order?: Order | null | undefined;
  sort?: ((order: Order | null) => void) | undefined;
  /** How many of the rows are selected; undefined if rows cannot be. */
  chosen?: "none" | "some" | "all" | undefined;
  chooseAll?: (() => void) | undefined;
  wraps: boolean;
}

/** The header of a table. A click on a column orders the rows by it. */
export function HeaderRow<T>({ columns, layout, order = null, sort, chosen, chooseAll, wraps }: Properties<T>) {
  return (
    <Box role="row" sx={{ ...layout, borderBottom: 1, borderColor: "divider", color: "text.secondary", bgcolor: "background.default", minHeight: 32, alignItems: "center" }}>
      {chosen !== undefined && (
        <Box role="columnheader" sx={CHOICE}>
          <input
            type="checkbox"
            aria-label="Select all rows"
            checked={chosen === "all"}
            ref={(box) => {
              if (box) box.indeterminate = chosen === "some";
            }}
            onChange={chooseAll}
          />
        </Box>
      )}
      {columns.map((column, place) => {
        const { name, sort: by, descending = false } = column;
        const isOrdered = by !== undefined && order?.by === by;
        const arrow = isOrdered ? (order.descending ? " ↓" : " ↑") : "";
        return (
          <Box
            key={name}
            role="columnheader"
            aria-sort={isOrdered ? (order.descending ? "descending" : "ascending") : undefined}
            sx={cellOf(column, columns[place - 1], wraps)}
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
          </Box>
        );
      })}
    </Box>
  );
}
