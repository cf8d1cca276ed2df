import { useLayoutEffect, useState, type RefObject } from "react";

/** Return the width of an element in pixels, also after it has changed. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  // Before the element is seen: keys that are pressed on a map without a width would find other items than are seen.
  useLayoutEffect(() => {
    const found = element.current;
    if (!found) return;
    const measure = () => setWidth(Math.floor(found.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(found);
    return () => observer.disconnect();
  }, [element]);
  return width;
}
