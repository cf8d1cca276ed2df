import { useMemo, useRef, useState } from "react";
import { inPlace } from "./inPlace";

interface Kept<T> {
  rows: readonly T[];
  /** Number of rows that are not shown yet. */
  fresh: number;
  setHovered: (hovered: boolean) => void;
}

/** Keep rows where they are while the pointer is over them; what is in them stays current. `arrangement` names the filter and the order: another one arranges the rows again. */
export function useInPlace<T>(items: readonly T[], keyOf: (item: T) => string, arrangement: string): Kept<T> {
  const [hovered, setHovered] = useState(false);
  const held = useRef({ items, arrangement });
  if (!hovered || held.current.arrangement !== arrangement) held.current = { items, arrangement };
  const first = held.current.items;
  const rows = useMemo(() => (first === items ? items : inPlace(first, items, keyOf)), [first, items, keyOf]);
  return { rows, fresh: items.length - rows.length, setHovered };
}
