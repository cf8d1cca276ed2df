import { useRef, type RefObject } from "react";
import { useRowKeys } from "../table/useRowKeys";
import type { Item } from "./address";
import { useBeside } from "./useBeside";

interface Actions<T> {
  search: () => void;
  /** Select an item, or take it out of the selection. */
  choose?: (item: T) => void;
  /** What Esc does while no item is open. */
  clear?: () => void;
  /** Whether something in the open item has Esc for itself. */
  hasEscape?: boolean;
}

/** Return what a list needs whose items open beside it: how they open, the item at which the keyboard is, and a reference for the element around the table. `list` is the path of the list, `opened` the item that is open. */
export function useRowsBeside<T extends Item>(list: string, items: readonly T[], opened: Item | null, { search, choose, clear, hasEscape = false }: Actions<T>) {
  const box: RefObject<HTMLDivElement | null> = useRef<HTMLDivElement>(null);
  const beside = useBeside(list, opened, box);
  const keys = {
    open: opened ? beside.toPage : beside.open,
    follow: beside.follow,
    search,
    choose,
    clear: opened ? (hasEscape ? undefined : beside.close) : clear,
  };
  // By its name, which the address has before the list is there.
  const current = useRowKeys(items, nameOf, keys, { opened: opened && nameOf(opened) });
  return { ...beside, box, current };
}

function nameOf({ namespace, name }: Item): string {
  return `${namespace}/${name}`;
}
