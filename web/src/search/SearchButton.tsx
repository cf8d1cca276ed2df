import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import { useEffect, useState } from "react";
import { PartBoundary } from "../app/Broken";
import { later } from "../app/parts";
import type { Page } from "./commands";

const load = async () => (await import("./Palette")).Palette;
const Palette = later(load);
/** When the search is fetched, after the page itself: it has to take the first letter. */
const SOON_MS = 1_000;

/** The button of the search, which Ctrl-K opens on every page. */
export function SearchButton({ pages }: { pages: readonly Page[] }) {
  const [isOpen, setIsOpen] = useState(false);
  const [wasOpen, setWasOpen] = useState(false);
  const open = () => {
    setIsOpen(true);
    setWasOpen(true);
  };
  useEffect(() => {
    const timer = window.setTimeout(() => void load().catch(() => undefined), SOON_MS);
    return () => window.clearTimeout(timer);
  }, []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      if ((event.target as HTMLElement).closest(".xterm")) return; // in a terminal, Ctrl-K deletes to the end of the line
      event.preventDefault();
      open();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <Button
        size="small"
        variant="outlined"
        onClick={open}
        aria-keyshortcuts="Control+K"
        sx={{ flex: "none", minWidth: { sm: 200 }, justifyContent: "space-between", color: "text.secondary", borderColor: "divider", fontWeight: 400 }}
      >
        Search
        <Box component="kbd" aria-hidden sx={{ display: { xs: "none", sm: "block" }, fontFamily: "inherit", fontSize: 12 }}>
          Ctrl K
        </Box>
      </Button>
      {wasOpen && (
        <PartBoundary fallback={null}>
          <Palette pages={pages} isOpen={isOpen} close={() => setIsOpen(false)} />
        </PartBoundary>
      )}
    </>
  );
}
