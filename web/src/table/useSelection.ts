import { useMemo, useRef, useState } from "react";
import { extent, range, toggled, type Keys } from "./selection";

export interface Selection<T> {
  keys: Keys;
  has: (item: T) => boolean;
  /** Select an item, or take it out; with `items`, all from the one before to this one. */
  toggle: (item: T, items?: readonly T[]) => void;
  toggleAll: (items: readonly T[]) => void;
  extentOf: (items: readonly T[]) => "none" | "some" | "all";
  clear: () => void;
}

/** Return the selected rows of a table. */
export function useSelection<T>(keyOf: (item: T) => string): Selection<T> {
  const [keys, setKeys] = useState<Keys>(new Set());
  const last = useRef<string | null>(null);
  return useMemo(
    () => ({
      keys,
      has: (item) => keys.has(keyOf(item)),
      toggle: (item, items) => {
        const key = keyOf(item);
        setKeys(toggled(keys, key, items && range(items.map(keyOf), last.current, key)));
        last.current = key;
      },
      toggleAll: (items) => {
        const all = items.map(keyOf);
        setKeys(extent(keys, all) === "all" ? new Set() : new Set(all));
      },
      extentOf: (items) => (keys.size ? extent(keys, items.map(keyOf)) : "none"),
      clear: () => setKeys(new Set()),
    }),
    [keys, keyOf],
  );
}
