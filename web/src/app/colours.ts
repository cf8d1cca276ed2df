/** The choice between light and dark colours. It is kept in a cookie, and the server writes it into the page: so the first thing that a browser paints has the right colours. */
import useMediaQuery from "@mui/material/useMediaQuery";
import { useSyncExternalStore } from "react";

/** `system`: as the person's system has it. */
export const COLOURS = ["system", "light", "dark"] as const;
export type Colours = (typeof COLOURS)[number];

const COOKIE = "kaji-colours";
const YEAR_SECONDS = 365 * 24 * 3600;

/** Return the choice in a text of cookies. */
function coloursIn(cookies: string): Colours {
  const values = cookies.split(/;\s*/).map((cookie) => cookie.split("="));
  const found = values.find(([name]) => name === COOKIE)?.[1];
  return COLOURS.find((known) => known === found) ?? "system";
}

let chosen: Colours = coloursIn(document.cookie);
const listeners = new Set<() => void>();

/** Choose colours, here and the next time that this browser opens the page. */
export function chooseColours(next: Colours): void {
  chosen = next;
  document.cookie = `${COOKIE}=${next}; Path=/; SameSite=Lax; Max-Age=${next === "system" ? 0 : YEAR_SECONDS}`;
  // The browser's own parts, such as scroll bars.
  document.querySelector("meta[name=color-scheme]")?.setAttribute("content", next === "system" ? "light dark" : next);
  listeners.forEach((listener) => listener());
}

/** Return the choice. */
export function useChosenColours(): Colours {
  return useSyncExternalStore(subscribe, () => chosen);
}

/** Return the colours that the page has. */
export function useColours(): "light" | "dark" {
  const isDark = useMediaQuery("(prefers-color-scheme: dark)");
  const choice = useChosenColours();
  if (choice !== "system") return choice;
  return isDark ? "dark" : "light";
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
