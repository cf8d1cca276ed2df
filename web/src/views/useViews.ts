import { useMemo } from "react";
import { useNavigate } from "react-router";
import { columnsKey } from "../table/columns/useColumns";
import { store, useStored } from "../table/useStored";
import { addressOf, viewsIn, viewsKey, type Table, type View } from "./views";

/** Return the saved views of a table, and the setter of all of them. */
export function useViews(table: Table): [readonly View[], (views: readonly View[]) => void] {
  const [stored, setStored] = useStored(viewsKey(table));
  const views = useMemo(() => viewsIn(stored), [stored]);
  return [views, (next) => setStored(next.length ? JSON.stringify(next) : null)];
}

/** Return the saved views of all tables. */
export function useAllViews(): { table: Table; view: View }[] {
  const [runs] = useViews("runs");
  const [nodes] = useViews("nodes");
  const [history] = useViews("history");
  const of = (table: Table, views: readonly View[]) => views.map((view) => ({ table, view }));
  return [...of("runs", runs), ...of("nodes", nodes), ...of("history", history)];
}

/** Return a function that shows a view: its columns, and its address. */
export function useShowView(): (table: Table, view: View) => void {
  const navigate = useNavigate();
  return (table, view) => {
    store(columnsKey(table), view.columns);
    void navigate(addressOf(table, view));
  };
}
