import { useEffect, useState, type RefObject } from "react";

/** Return the width of an element in pixels, also after it has changed; 0 until it is known. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const found = element.current;
    if (!found) return;
    const observer = new ResizeObserver(() => setWidth(Math.floor(found.clientWidth)));
    observer.observe(found);
    return () => observer.disconnect();
  }, [element]);
  return width;
}
