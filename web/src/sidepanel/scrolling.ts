/** The element that scrolls a part of the page: the window, or a panel beside a list. */
import { useVirtualizer, useWindowVirtualizer } from "@tanstack/react-virtual";
import { createContext, useCallback, useContext, useEffect, useLayoutEffect, useState, type RefObject } from "react";

/** Height around a panel that is as high as the window: the top bar, and the margins of the page. */
export const AROUND_PANEL_PX = 81;

/** The panel that scrolls what is in it; null: the window does. */
export const ScrollingPanel = createContext<HTMLElement | null>(null);

interface Rows {
  count: number;
  rowPx: number;
  list: RefObject<HTMLElement | null>;
}

/** Return the rows of a list that can be seen, in the panel or the window that scrolls them. */
export function useVisibleRows({ count, rowPx, list }: Rows) {
  const panel = useContext(ScrollingPanel);
  const rows = { count, estimateSize: () => rowPx, overscan: 12, scrollMargin: list.current?.offsetTop ?? 0 };
  const inWindow = useWindowVirtualizer({ ...rows, enabled: panel === null });
  const inPanel = useVirtualizer({ ...rows, enabled: panel !== null, getScrollElement: () => panel });
  return panel ? inPanel : inWindow;
}

/** Return the height from the upper edge of an element to the lower edge of the window or panel, less `belowPx`, for use in a CSS function. */
export function useRoomBelow(element: RefObject<HTMLElement | null>, belowPx: number): string {
  const panel = useContext(ScrollingPanel);
  const [top, setTop] = useState(0);
  const measure = useCallback(() => {
    const box = element.current?.getBoundingClientRect();
    if (!box) return;
    setTop(Math.round(panel ? box.top - panel.getBoundingClientRect().top + panel.scrollTop + AROUND_PANEL_PX : box.top + window.scrollY));
  }, [element, panel]);
  useLayoutEffect(measure);
  // Content above the element may be added after the element.
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(panel?.firstElementChild ?? document.body);
    return () => observer.disconnect();
  }, [measure, panel]);
  return `100vh - ${top + belowPx}px`;
}
