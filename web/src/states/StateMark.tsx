import { keyframes, styled, useTheme } from "@mui/material/styles";
import type { Phase } from "../api/client";
import { stateOf, type Finding, type Shape } from "./states";

/** The frame of a shape. One of a run that starts pulses slowly, unless the person wants reduced motion (see the theme).
 * It is an HTML element of its own layer: the browser paints it once, and an animation inside of an SVG at each frame. */
const Frame = styled("span")({
  display: "inline-flex",
  flex: "none",
  "&[data-pulses]": { willChange: "opacity", animation: `${keyframes({ "50%": { opacity: 0.5 } })} 2.4s ease-in-out infinite` },
});

interface Properties {
  phase: Phase;
  /** A suspicion about a running run. It is shown in place of the state. */
  finding?: Finding | "";
  /** A text that is shown in place of the state's own word. */
  word?: string;
}

/** The state of a run, as a shape and a word, so that no one needs to distinguish states by colour alone. */
export function StateMark({ phase, finding = "", word }: Properties) {
  const dark = useTheme().palette.mode === "dark";
  const state = stateOf(phase, finding);
  return (
    <span style={{ color: dark ? state.dark : state.light, display: "inline-flex", alignItems: "center", gap: 6, verticalAlign: "middle" }}>
      <Frame data-pulses={state.shape === "half" || undefined}>
        <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
          {drawing(state.shape)}
        </svg>
      </Frame>
      {word ?? state.word}
    </span>
  );
}

function drawing(shape: Shape) {
  const line = { fill: "none", stroke: "currentColor", strokeWidth: 1.8, strokeLinecap: "round" as const };
  switch (shape) {
    case "hollow":
      return <circle cx="6" cy="6" r="4.6" {...line} />;
    case "half":
      return (
        <>
          <circle cx="6" cy="6" r="4.6" {...line} />
          <path d="M6 1.4a4.6 4.6 0 0 1 0 9.2z" fill="currentColor" />
        </>
      );
    case "full":
      return <circle cx="6" cy="6" r="5.2" fill="currentColor" />;
    case "again":
      return <path d="M10.4 6A4.4 4.4 0 1 1 8.6 2.4M8.8.6v2.2H6.6" {...line} />;
    case "check":
      return <path d="M1.6 6.6l3 3L10.4 2.6" {...line} />;
    case "cross":
      return <path d="M2 2l8 8M10 2l-8 8" {...line} />;
    case "pause":
      return <path d="M4 2v8M8 2v8" {...line} strokeWidth={2.4} />;
    case "square":
      return <rect x="1.6" y="1.6" width="8.8" height="8.8" rx="1" fill="currentColor" />;
  }
}
