import { useTheme } from "@mui/material/styles";
import { memo, type CSSProperties } from "react";
import { spansOf, type Style } from "./ansi";

/** The eight colours of terminals, each readable on the page. */
const LIGHT = ["#24292f", "#b3261e", "#2f6b3a", "#8a5200", "#1a5fb4", "#8b2f8b", "#0b6e69", "#5f6368"];
const DARK = ["#9aa0a6", "#ff8a80", "#8fcf98", "#f0b45c", "#84b6f4", "#e08fc0", "#5cc9c1", "#e8eaed"];

/** A text that was searched for. */
export interface Needle {
  text: string;
  matchesCase: boolean;
}

/** One line of a program's output, with its colours. Matches of the search are marked. */
export const LogText = memo(function LogText({ text, needle }: { text: string; needle: Needle | null }) {
  const dark = useTheme().palette.mode === "dark";
  return spansOf(text).map((span, place) => {
    const parts = partsOf(span.text, needle);
    const marked = parts.map((part, index) => (index % 2 ? <mark key={index}>{part}</mark> : part));
    const style = cssOf(span.style, dark ? DARK : LIGHT);
    return style ? (
      <span key={place} style={style}>
        {marked}
      </span>
    ) : (
      marked
    );
  });
});

/** The colour of a rank in the gutter. */
export function rankColour(rank: number, dark: boolean): string {
  return (dark ? DARK : LIGHT)[1 + (rank % 6)] ?? "inherit";
}

function partsOf(text: string, needle: Needle | null): string[] {
  if (!needle?.text) return [text];
  const [lower, wanted] = needle.matchesCase ? [text, needle.text] : [text.toLowerCase(), needle.text.toLowerCase()];
  if (lower.length !== text.length) return [text];
  const parts: string[] = [];
  let start = 0;
  for (let found = lower.indexOf(wanted); found >= 0; found = lower.indexOf(wanted, start)) {
    parts.push(text.slice(start, found), text.slice(found, found + wanted.length));
    start = found + wanted.length;
  }
  return [...parts, text.slice(start)];
}

function cssOf(style: Style, colours: readonly string[]): CSSProperties | null {
  if (!Object.keys(style).length) return null;
  const background = style.background === undefined ? undefined : colours[style.background];
  return {
    color: style.colour === undefined ? undefined : colours[style.colour],
    backgroundColor: background && `${background}33`,
    fontWeight: style.bold ? 600 : undefined,
    opacity: style.faint ? 0.75 : undefined,
    fontStyle: style.italic ? "italic" : undefined,
    textDecoration: style.underlined ? "underline" : undefined,
  };
}
