import { useTheme } from "@mui/material/styles";
import { Fragment, memo, type CSSProperties } from "react";
import { spansOf, type Span, type Style } from "./ansi";
import { cut, linksIn, type Range } from "./links";

/** The eight colours of terminals, each readable on the page. */
const LIGHT = ["#24292f", "#b3261e", "#2f6b3a", "#8a5200", "#1a5fb4", "#8b2f8b", "#0b6e69", "#5f6368"];
const DARK = ["#9aa0a6", "#ff8a80", "#8fcf98", "#f0b45c", "#84b6f4", "#e08fc0", "#5cc9c1", "#e8eaed"];

/** A text that was searched for. */
export interface Needle {
  text: string;
  matchesCase: boolean;
}

interface Properties {
  text: string;
  needle: Needle | null;
  /** Whether addresses are links. Those inside a button cannot be. */
  hasLinks?: boolean;
}

/** One line of a program's output, with its colours. Matches of the search are marked, and addresses are links. */
export const LogText = memo(function LogText({ text, needle, hasLinks = true }: Properties) {
  const dark = useTheme().palette.mode === "dark";
  const spans = placed(spansOf(text));
  const shown = spans.map((span) => span.text).join("");
  const marks = marksIn(shown, needle);
  const written = ({ start, end }: Range) =>
    cut(start, end, marks).map((part) => {
      const words = shown.slice(part.start, part.end);
      return part.isIn ? <mark key={part.start}>{words}</mark> : words;
    });
  const coloured = (within: Range) =>
    spans.flatMap(({ start, end, style }) => {
      const part = { start: Math.max(start, within.start), end: Math.min(end, within.end) };
      if (part.start >= part.end) return [];
      const css = cssOf(style, dark ? DARK : LIGHT);
      if (!css) return written(part);
      return (
        <span key={part.start} style={css}>
          {written(part)}
        </span>
      );
    });
  return cut(0, shown.length, hasLinks ? linksIn(shown) : []).map((part) =>
    part.isIn ? (
      <a key={part.start} href={shown.slice(part.start, part.end)} target="_blank" rel="noopener noreferrer nofollow">
        {coloured(part)}
      </a>
    ) : (
      <Fragment key={part.start}>{coloured(part)}</Fragment>
    ),
  );
});

/** Return a line's spans with their places in it. */
function placed(spans: readonly Span[]): (Span & Range)[] {
  let end = 0;
  return spans.map((span) => {
    const start = end;
    end += span.text.length;
    return { ...span, start, end };
  });
}

/** The colour of a rank in the gutter. */
export function rankColour(rank: number, dark: boolean): string {
  return (dark ? DARK : LIGHT)[1 + (rank % 6)] ?? "inherit";
}

/** Return where a text has what was searched for. */
function marksIn(text: string, needle: Needle | null): Range[] {
  if (!needle?.text) return [];
  const [lower, wanted] = needle.matchesCase ? [text, needle.text] : [text.toLowerCase(), needle.text.toLowerCase()];
  if (lower.length !== text.length) return [];
  const marks: Range[] = [];
  for (let start = lower.indexOf(wanted); start >= 0; start = lower.indexOf(wanted, start + wanted.length)) marks.push({ start, end: start + wanted.length });
  return marks;
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
