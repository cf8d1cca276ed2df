import { useMemo } from "react";
import { briefly } from "./names";

/** A compact list of nodes, cut to a line; all of it under the pointer. */
export function NodeNames({ list }: { list: string }) {
  const brief = useMemo(() => briefly(list), [list]);
  return <span title={brief === list ? undefined : list}>{brief}</span>;
}
