import { useMemo } from "react";
import { chosenColumns } from "./columnChoice";
import { useStored } from "../useStored";

/** Return the key under which this browser remembers the columns of a table. */
export function columnsKey(table: string): string {
  return `kajitori-columns-${table}`;
}

/** Return the chosen columns of a table, and the setter of their names. The browser remembers them under the table's name. */
export function useColumns<C extends { name: string; isExtra?: boolean }>(
  table: string,
  columns: readonly C[],
): [C[], (names: readonly string[]) => void] {
  const [stored, setStored] = useStored(columnsKey(table));
  const chosen = useMemo(() => chosenColumns(columns, stored), [columns, stored]);
  return [chosen, (names) => setStored(JSON.stringify(names))];
}
