import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import { useEffect, useRef, type ReactNode } from "react";
import { NavigationType, useNavigationType } from "react-router";

interface Properties {
  /** What it is about, for screen readers: "Node gpu-1". */
  label: string;
  /** Stands at the left of its upper edge. */
  head: ReactNode;
  /** More to do with it, before the button that closes it. */
  more?: ReactNode;
  close: () => void;
  /** Whether it takes the focus when a person opens it, so that Tab leads into it and not through the list. */
  takesFocus?: boolean;
  children: ReactNode;
}

/** What a list holds of one item, beside the list. */
export function SidePanel({ label, head, more, close, takesFocus = false, children }: Properties) {
  const panel = useRef<HTMLElement>(null);
  // Not when the page was loaded with it, by Back, or while j and k go through the list.
  const wasOpened = useNavigationType() === NavigationType.Push;
  useEffect(() => {
    if (takesFocus && wasOpened) panel.current?.focus({ preventScroll: true });
  }, [label]);
  return (
    <Box
      component="section"
      ref={panel}
      aria-label={label}
      tabIndex={-1}
      sx={{ border: 1, borderColor: "divider", borderRadius: 1, p: 4, minWidth: 0, "&:focus-visible": { outline: "2px solid", outlineColor: "primary.main", outlineOffset: -2 } }}
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
