import { useEffect, useRef, useState } from "react";
import { isTyping } from "../app/keys";

interface Actions<T> {
  open: (item: T) => void;
  search: () => void;
  /** Select an item, or take it out of the selection. */
  choose?: (item: T) => void;
  /** Give up the selection. */
  clear?: () => void;
}

/** Move through items by j and k, open one by Enter, select one by x, and find the filter by /. Return the present item, which stays the same one when others come and go; null for none. */
export function useRowKeys<T>(items: readonly T[], keyOf: (item: T) => string, actions: Actions<T>): T | null {
  const [key, setKey] = useState<string | null>(null);
  const index = key === null ? -1 : items.findIndex((item) => keyOf(item) === key);
  const latest = useRef({ items, keyOf, actions, index });
  latest.current = { items, keyOf, actions, index };

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (isTyping(event)) return;
      const { items, keyOf, actions, index } = latest.current;
      const item = items[index];
      const go = (to: number) => {
        const next = items[Math.max(0, Math.min(to, items.length - 1))];
        if (next !== undefined) setKey(keyOf(next));
      };
      if (event.key === "j") go(index + 1);
      else if (event.key === "k") go(index - 1);
      else if (event.key === "Enter" && item !== undefined) actions.open(item);
      else if (event.key === "x" && item !== undefined) actions.choose?.(item);
      else if (event.key === "Escape") actions.clear?.();
      else if (event.key === "/") {
        event.preventDefault();
        actions.search();
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return items[index] ?? null;
}
