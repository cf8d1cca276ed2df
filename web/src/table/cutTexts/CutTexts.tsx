import Box from "@mui/material/Box";
import { useEffect, useState, type RefObject } from "react";
import { cutTexts, type CutText } from "./cutTexts";

interface Shown {
  /** Distance of the row's lower edge from the top of the list in pixels. */
  top: number;
  texts: readonly CutText[];
}

/** The whole text of the cells that are cut in the row with the focus, below that row. Under the pointer the browser shows a cell's title, and screen readers read the whole cell anyway. Escape takes it away. */
export function CutTexts({ list, columns }: { list: RefObject<HTMLElement | null>; columns: readonly string[] }) {
  const [shown, setShown] = useState<Shown | null>(null);
  useEffect(() => {
    const element = list.current;
    if (!element) return;
    const look = ({ target }: FocusEvent) => {
      const row = target instanceof Element && target.matches(":focus-visible") ? target.closest<HTMLElement>("[role=row]") : null;
      const texts = row ? cutTexts([...row.querySelectorAll<HTMLElement>("[role=cell]")], columns) : [];
      setShown(row && texts.length ? { top: row.getBoundingClientRect().bottom - element.getBoundingClientRect().top, texts } : null);
    };
    const hide = () => setShown(null);
    const leave = (event: KeyboardEvent) => event.key === "Escape" && hide();
    element.addEventListener("focusin", look);
    element.addEventListener("focusout", hide);
    element.addEventListener("keydown", leave);
    return () => {
      element.removeEventListener("focusin", look);
      element.removeEventListener("focusout", hide);
      element.removeEventListener("keydown", leave);
    };
  }, [list, columns]);
  if (!shown) return null;
  return (
    <Box
      aria-hidden="true"
      sx={{ position: "absolute", left: 24, maxWidth: "min(720px, 90%)", zIndex: 2, pointerEvents: "none", bgcolor: "background.paper", border: 1, borderColor: "divider", borderRadius: 1, boxShadow: 3, px: 3, py: 2, overflowWrap: "anywhere" }}
      style={{ top: shown.top }}
    >
      {shown.texts.map(({ column, text }) => (
        <div key={column}>
          <Box component="span" sx={{ color: "text.secondary" }}>
            {column}:{" "}
          </Box>
          <bdi>{text}</bdi>
        </div>
      ))}
    </Box>
  );
}
