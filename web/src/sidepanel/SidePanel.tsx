import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useEffect, useRef, type ReactNode } from "react";
import { NavigationType, useNavigationType } from "react-router";
import { isTyping } from "../app/keys";

interface Properties {
  /** Its title for screen readers: "Node gpu-1". */
  label: string;
  /** Shown at the left of its upper edge. */
  head: ReactNode;
  /** More to do with it, before the button that closes it. */
  more?: ReactNode;
  close: () => void;
  /** Whether it takes the focus when a person opens it, so that Tab leads into it and not through the list. */
  takesFocus?: boolean;
  /** Whether the list closes it on Esc, and gives the focus back to the row. */
  isClosedByList?: boolean;
  children: ReactNode;
}

/** The details of one item of a list, beside the list. */
export function SidePanel({ label, head, more, close, takesFocus = false, isClosedByList = false, children }: Properties) {
  const panel = useRef<HTMLElement>(null);
  // Not when the page was loaded with it, by Back, or while j and k go through the list.
  const wasOpened = useNavigationType() === NavigationType.Push;
  useEffect(() => {
    if (!wasOpened) return;
    if (takesFocus) panel.current?.focus({ preventScroll: true });
    showFrom(panel.current);
  }, [label]);
  useEffect(() => {
    if (isClosedByList) return;
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !event.defaultPrevented && !isTyping(event)) close();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [isClosedByList, close]);
  return (
    <Box
      component="section"
      ref={panel}
      aria-label={label}
      tabIndex={-1}
      sx={{ border: 1, borderColor: "divider", borderRadius: 1, p: 4, bgcolor: "background.paper", minWidth: 0, "&:focus-visible": { outline: "2px solid", outlineColor: "primary.main", outlineOffset: -2 } }}
    >
      <Box sx={{ display: "flex", alignItems: "start", columnGap: 2, mb: 2 }}>
        <Box sx={{ flex: 1, minWidth: 0 }}>{head}</Box>
        {more}
        <Button size="small" onClick={close}>
          Close
        </Button>
      </Box>
      {children}
    </Box>
  );
}

/** Scroll to a panel that is out of sight: on narrow screens it stands above its list. */
function showFrom(panel: HTMLElement | null): void {
  const box = panel?.getBoundingClientRect();
  if (box && (box.bottom <= 0 || box.top >= window.innerHeight)) panel?.scrollIntoView({ block: "start" });
}

/** The panel's heading. */
export function PanelTitle({ children }: { children: ReactNode }) {
  return (
    <Typography variant="h2" sx={{ overflowWrap: "anywhere" }}>
      {children}
    </Typography>
  );
}
