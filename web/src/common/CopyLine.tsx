import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import { useRef, useState } from "react";
import { MONOSPACE } from "../app/theme";
import { Wrapped } from "./Wrapped";

interface Properties {
  text: string;
  wraps?: boolean;
  /** Show many lines, such as those of a stack. */
  tall?: boolean;
}

/** A line for a terminal, with a button that copies it. A long line scrolls, or `wraps`. */
export function CopyLine({ text, wraps, tall }: Properties) {
  const [told, setTold] = useState("Copy");
  const line = useRef<HTMLElement>(null);
  const copy = async () => {
    // Over plain HTTP from another machine, a page may not write to the clipboard: the person does, with the line selected.
    const isDone = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    if (!isDone && line.current) window.getSelection()?.selectAllChildren(line.current);
    setTold(isDone ? "Copied" : "Now press Ctrl C");
    window.setTimeout(() => setTold("Copy"), 2_000);
  };
  return (
    <Box
      sx={{
        display: "flex",
        alignItems: tall ? "flex-start" : "center",
        gap: 2,
        border: 1,
        borderColor: "divider",
        borderRadius: 1,
        pl: 3,
        minWidth: 0,
      }}
    >
      <Box
        component="code"
        ref={line}
        sx={{
          fontFamily: MONOSPACE,
          fontSize: 12.5,
          flex: 1,
          minWidth: 0,
          overflowX: "auto",
          whiteSpace: wraps ? "pre-wrap" : "pre",
          overflowWrap: wraps ? "anywhere" : "normal",
          py: 2,
          maxHeight: tall ? 480 : 160,
        }}
        tabIndex={0}
      >
        {wraps ? <Wrapped text={text} /> : text}
      </Box>
      <Button size="small" onClick={copy} aria-live="polite">
        {told}
      </Button>
    </Box>
  );
}
