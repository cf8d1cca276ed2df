import Box from "@mui/material/Box";
import useMediaQuery from "@mui/material/useMediaQuery";
import { useContext, useState, type ReactNode } from "react";
import { AROUND_PANEL_PX, ScrollingPanel } from "./scrolling";
import { WIDE_PX } from "./useOpening";

interface Properties {
  /** The list. */
  children: ReactNode;
  /** The panel of the chosen item; null while none is. */
  panel: ReactNode;
  /** Width of the window from which on list and panel are side by side. On narrower screens the panel is above the list. */
  fromPx?: number;
  /** Widths of list and panel, as columns of a CSS grid. */
  columns?: string;
}

const EDGE_PX = 16;
/** Width of a list, and of what is around it, beside the panel that holds another list. */
const OUTER_LIST_PX = 600;

/** A narrow list beside a panel with all of an item, which needs more room. */
export const WHOLE_ITEM = { fromPx: WIDE_PX, columns: "clamp(380px, 32%, 520px) minmax(0, 1fr)" } as const;

/** A list, and beside it a panel with the details of one item. The panel stays in sight and scrolls by itself, so the list keeps its place. */
export function Beside({ children, panel, fromPx = 1200, columns = "minmax(0, 1fr) 380px" }: Properties) {
  const outer = useContext(ScrollingPanel);
  const isWide = useMediaQuery(`(min-width: ${outer ? fromPx + OUTER_LIST_PX : fromPx}px)`);
  const [box, setBox] = useState<HTMLElement | null>(null);
  return (
    <Box sx={{ display: "grid", gridTemplateColumns: isWide && panel ? columns : "minmax(0, 1fr)", gap: 4, alignItems: "start" }}>
      <Box sx={{ minWidth: 0 }}>{children}</Box>
      {panel && (
        <Box
          ref={setBox}
          sx={{ minWidth: 0, ...(isWide ? { position: "sticky", top: EDGE_PX, maxHeight: `calc(100vh - ${AROUND_PANEL_PX}px)`, overflowY: "auto" } : { order: -1 }) }}
        >
          <ScrollingPanel value={isWide ? box : outer}>{panel}</ScrollingPanel>
        </Box>
      )}
    </Box>
  );
}
