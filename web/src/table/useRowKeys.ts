import { useEffect, useRef, useState, type RefObject } from "react";
import { isTyping } from "../app/keys";

interface Actions<T> {
  open: (item: T) => void;
  search: () => void;
  /** Show the item that j or k led to, because another one is shown beside the list. */
  follow?: (item: T) => void;
  /** Select an item, or take it out of the selection. */
  choose?: ((item: T) => void) | undefined;
  /** Give up the selection. */
  clear?: (() => void) | undefined;
}

interface Place {
  /** Key of the item that is shown beside the list; null for none. */
  opened?: string | null;
  /** The part of the page in which the keys are for these items. Without it, all of the page is. */
  within?: RefObject<HTMLElement | null>;
}

const LIST_KEYS: ReadonlySet<string> = new Set(["j", "k", "Enter", "x", "/"]);

/** Move through items by j and k, open one by Enter, select one by x, and find the filter by /. Return the present item, which stays the same one when others come and go; null for none. */
export function useRowKeys<T>(items: readonly T[], keyOf: (item: T) => string, actions: Actions<T>, { opened = null, within }: Place = {}): T | null {
  const [key, setKey] = useState<string | null>(opened);
  const followed = useRef<string | null>(null);
  const index = key === null ? -1 : items.findIndex((item) => keyOf(item) === key);
  const latest = useRef({ items, keyOf, actions, index, opened });
  latest.current = { items, keyOf, actions, index, opened };

  useEffect(() => {
    // While the keyboard is ahead of what is shown, it stays there.
    if (followed.current === null && opened !== null) setKey(opened);
    if (followed.current === opened) followed.current = null;
  }, [opened]);

  useEffect(() => {
    const place = within?.current ?? window;
    const onKey = (event: Event) => {
      if (!(event instanceof KeyboardEvent) || event.defaultPrevented || isTyping(event)) return;
      const { items, keyOf, actions, index, opened } = latest.current;
      const item = items[index];
      const go = (to: number) => {
        const next = items[Math.max(0, Math.min(to, items.length - 1))];
        if (next === undefined) return;
        setKey(keyOf(next));
        leaveRow();
        if (opened === null) return;
        followed.current = keyOf(next) === opened ? null : keyOf(next);
        actions.follow?.(next);
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
      if (within && LIST_KEYS.has(event.key)) event.preventDefault(); // not for the list around it, too
    };
    place.addEventListener("keydown", onKey);
    return () => place.removeEventListener("keydown", onKey);
  }, [within]);
  return items[index] ?? null;
}

/** Move the focus from a link in a row to the table: Enter is for the row at which the keyboard is. */
function leaveRow(): void {
  const table = document.activeElement?.closest("[role=row]") && document.activeElement.closest<HTMLElement>("[role=table]");
  table?.focus({ preventScroll: true });
}
