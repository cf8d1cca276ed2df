import useMediaQuery from "@mui/material/useMediaQuery";
import { useState } from "react";

/** Width of the window from which on an item can be shown beside its list. */
export const WIDE_PX = 1280;

interface Opening {
  /** Whether there is room for an item beside its list. */
  isWide: boolean;
  /** Whether items open beside the list, and not as a page. */
  opensBeside: boolean;
  /** Remember how the person wants to open the items of this list. */
  choose: (beside: boolean) => void;
}

/** Return how the items of a list open: on wide screens beside it, unless the person chose a page of their own the last time. */
export function useOpening(list: string): Opening {
  const key = `kajitori-opens-${list}`;
  const isWide = useMediaQuery(`(min-width: ${WIDE_PX}px)`);
  const [stored, setStored] = useState(() => window.localStorage.getItem(key));
  const choose = (beside: boolean) => {
    const word = beside ? "beside" : "page";
    window.localStorage.setItem(key, word);
    setStored(word);
  };
  return { isWide, opensBeside: isWide && stored !== "page", choose };
}
