import { useCallback, useEffect, useLayoutEffect, useRef, useState, type RefObject } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { besideOf, listBeside, listOf, pageOf, type Item } from "./address";
import { useOpening } from "./useOpening";

/** Whether the keyboard's row is to take the focus, once it is there. */
export interface ReturningFocus {
  isAsked: boolean;
  /** The focus has gone to the row, or the person moved it elsewhere. */
  done: () => void;
}

/** Time for which the keyboard has to rest at an item before it is shown, if keys follow each other faster. */
const REST_MS = 180;

/** Parameters of the lists that were shown last, by the path of the list: an item's page leads back to them. */
const lastShown = new Map<string, string>();

/** Return the address that shows an item's page beside the list as it was shown last. */
export function backBeside(list: string, item: Item, tab: string | null): string {
  return besideOf(list, item, new URLSearchParams(lastShown.get(list)), tab);
}

/** Return where the items of a list open, and how to go from one to another. `list` is the path of the list; `opened` is the item beside it. `box` is around the list: its rows stay where they are when the list becomes narrower. */
export function useBeside(list: string, opened: Item | null, box: RefObject<HTMLElement | null>) {
  const [parameters] = useSearchParams();
  const navigate = useNavigate();
  const { opensBeside, choose } = useOpening(list);
  const ofList = listBeside(parameters) ?? parameters;
  const tab = opened ? parameters.get("tab") : null;
  const isOpen = opened !== null;
  lastShown.set(list, `${ofList}`);

  const addressOf = (item: Item) => (isOpen || opensBeside ? besideOf(list, item, ofList, tab) : pageOf(list, item));
  const toPage = (item: Item) => {
    const isSame = opened?.namespace === item.namespace && opened.name === item.name;
    void navigate(pageOf(list, item, isSame ? parameters : new URLSearchParams(tab ? { tab } : {})));
  };
  /** Make an item a page, and open others as pages from then on. */
  const stayPage = (item: Item) => {
    choose(false);
    toPage(item);
  };
  const open = (item: Item) => void navigate(addressOf(item));
  const { focus, ask } = useReturningFocus(isOpen);
  const close = () => {
    ask();
    void navigate(listOf(list, ofList));
  };
  const follow = useRested((item: Item) => void navigate(addressOf(item), { replace: true }));
  useSteadyRows(isOpen, box);
  return { addressOf, open, toPage, stayPage, close, follow, focus };
}

/** Return a function that does something with a value: at once, or once no other value has come for a while. */
function useRested<T>(act: (value: T) => void): (value: T) => void {
  const latest = useRef(act);
  latest.current = act;
  const held = useRef({ at: 0, timer: 0 });
  useEffect(() => () => window.clearTimeout(held.current.timer), []);
  return useCallback((value: T) => {
    const now = performance.now();
    const rested = now - held.current.at > REST_MS;
    window.clearTimeout(held.current.timer);
    held.current.at = now;
    if (rested) latest.current(value);
    else held.current.timer = window.setTimeout(() => latest.current(value), REST_MS);
  }, []);
}

/** Return whether the focus is to go to the present row, and a function that asks for that. It goes there once the panel is closed and the list has the row, which may come later than the person closes the panel. */
function useReturningFocus(isOpen: boolean): { focus: ReturningFocus; ask: () => void } {
  const [isAsked, setIsAsked] = useState(false);
  const done = useCallback(() => setIsAsked(false), []);
  useEffect(() => {
    if (isOpen) done();
  }, [isOpen, done]);
  return { focus: { isAsked: isAsked && !isOpen, done }, ask: () => setIsAsked(true) };
}

/** Keep the rows of a list where they are in the window when what is above them changes its height, because a panel opens or closes. */
function useSteadyRows(isOpen: boolean, box: RefObject<HTMLElement | null>): void {
  const before = useRef({ isOpen, top: 0 });
  useLayoutEffect(() => {
    const rows = box.current?.querySelector("[role=rowgroup]")?.getBoundingClientRect();
    const top = rows ? rows.top + window.scrollY : 0;
    const { isOpen: wasOpen, top: topBefore } = before.current;
    before.current = { isOpen, top };
    if (isOpen !== wasOpen && top && topBefore) window.scrollBy(0, top - topBefore);
  });
}
