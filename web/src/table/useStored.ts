import { useCallback, useSyncExternalStore } from "react";

/** Tells this tab of a change; the browser tells the others with an event of the same kind. */
const CHANGED = "kajitori-stored";

/** Remember a text in this browser, or forget it (null). All that show it follow. */
export function store(key: string, text: string | null): void {
  if (text === null) window.localStorage.removeItem(key);
  else window.localStorage.setItem(key, text);
  window.dispatchEvent(new Event(CHANGED));
}

/** Return a text that this browser remembers, null for none, and its setter. It follows changes elsewhere on the page and in other tabs. */
export function useStored(key: string): [string | null, (text: string | null) => void] {
  const text = useSyncExternalStore(follow, () => window.localStorage.getItem(key));
  const set = useCallback((next: string | null) => store(key, next), [key]);
  return [text, set];
}

function follow(changed: () => void): () => void {
  for (const kind of [CHANGED, "storage"]) window.addEventListener(kind, changed);
  return () => {
    for (const kind of [CHANGED, "storage"]) window.removeEventListener(kind, changed);
  };
}
