import { useMemo, useState } from "react";
import { chosenColumns } from "./columnChoice";

/** Return the chosen columns of a table, and the setter of their names. The browser remembers them under the table's name. */
export function useColumns<C extends { name: string; isExtra?: boolean }>(
  table: string,
  columns: readonly C[],
): [C[], (names: readonly string[]) => void] {
  const key = `kajitori-columns-${table}`;
  const [stored, setStored] = useState(() => window.localStorage.getItem(key));
  const chosen = useMemo(() => chosenColumns(columns, stored), [columns, stored]);
  const choose = (names: readonly string[]) => {
    const text = JSON.stringify(names);
    window.localStorage.setItem(key, text);
    setStored(text);
  };
  return [chosen, choose];
}
