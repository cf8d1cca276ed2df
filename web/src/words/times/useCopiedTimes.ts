import { useEffect } from "react";
import { exact } from "./times";

/** While it is mounted, text that is copied from the page has the exact time after each relative one: "3 min ago (Nov 28, 2026, 8:17:23 PM UTC)". */
export function useCopiedTimes(): void {
  useEffect(() => {
    document.addEventListener("copy", addExactTimes);
    return () => document.removeEventListener("copy", addExactTimes);
  }, []);
}

function addExactTimes(event: ClipboardEvent): void {
  const selection = document.getSelection();
  if (!selection || selection.isCollapsed || !event.clipboardData) return;
  const times = [...document.querySelectorAll("time")].filter((time) => selection.containsNode(time, true));
  if (!times.length) return;
  // The browser turns a selection into text, with its lines and tabs. The exact times stand in the page for that moment only.
  const added = times.map((time) => {
    const text = document.createTextNode(` (${exact(time.dateTime)})`);
    time.append(text);
    return text;
  });
  const copied = selection.toString();
  added.forEach((text) => text.remove());
  event.clipboardData.setData("text/plain", copied);
  event.preventDefault();
}
