import Box from "@mui/material/Box";
import { useEffect, useRef, useState, type PointerEvent } from "react";
import { HIDDEN, isArrow, prepared, type Arrow } from "../../canvas/canvas";
import { Tip } from "../../canvas/CanvasMap";
import type { Trial } from "../trials/trials";

/** Which members stand out; all plots of a page show the same. */
export interface Marking {
  /** The members, the best first. */
  ranked: readonly Trial[];
  /** Index of the member under the pointer or the keyboard. */
  marked: number | null;
  setMarked: (index: number | null) => void;
  /** Index of the member that is shown beside the plots. */
  selected: number | null;
  select: (index: number) => void;
  told: (trial: Trial) => string;
}

interface Properties extends Marking {
  label: string;
  width: number;
  height: number;
  drawOver: (paint: CanvasRenderingContext2D) => void;
  trialAt: (x: number, y: number) => Trial | undefined;
  next: (from: number | null, key: Arrow) => Trial | undefined;
  /** Where the words about a member stand; null for one that is not drawn. */
  placeOf: (trial: Trial) => { x: number; y: number } | null;
  isBusy?: boolean;
  begin?: (event: PointerEvent<Element>) => void;
  move?: (event: PointerEvent<Element>) => void;
  /** Ends a drag; returns whether there was one. */
  end?: () => boolean;
}

/** The layer over a plot that follows pointer and keyboard, and marks members. */
export function PlotOverlay({ ranked, marked, setMarked, selected, select, told, label, width, height, drawOver, trialAt, next, placeOf, isBusy, begin, move, end }: Properties) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dragged = useRef(false);
  const [isActive, setActive] = useState(false);
  const [byKeyboard, setByKeyboard] = useState(false);

  useEffect(() => {
    const paint = canvas.current && width ? prepared(canvas.current, width, height) : null;
    if (paint) drawOver(paint);
  });

  const under = (event: { clientX: number; clientY: number; currentTarget: Element }) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    return trialAt(event.clientX - left, event.clientY - top);
  };
  const trial = isActive ? ranked.find(({ index }) => index === marked) : undefined;
  const place = trial && !isBusy ? placeOf(trial) : null;
  const leave = () => {
    setActive(false);
    setMarked(null);
  };
  return (
    <>
      <Box
        component="canvas"
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={label}
        onPointerDown={begin}
        onPointerMove={(event) => {
          move?.(event);
          setActive(true);
          setByKeyboard(false);
          const found = under(event)?.index ?? null;
          if (found !== marked) setMarked(found);
        }}
        onPointerUp={() => {
          dragged.current = end?.() ?? false;
        }}
        onPointerLeave={leave}
        onBlur={leave}
        onClick={(event) => {
          const found = under(event);
          if (found && !dragged.current) select(found.index);
          dragged.current = false;
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && marked !== null) {
            event.stopPropagation(); // the table opens its row by Enter
            return select(marked);
          }
          if (!isArrow(event.key)) return;
          event.preventDefault();
          setActive(true);
          setByKeyboard(true);
          setMarked(next(marked ?? selected, event.key)?.index ?? null);
        }}
        sx={{
          position: "absolute",
          inset: 0,
          cursor: isBusy ? "ns-resize" : marked === null ? "default" : "pointer",
          "&:focus-visible": { outline: "2px solid", outlineColor: "primary.main", outlineOffset: -2 },
        }}
      />
      {trial && place && <Words trial={trial} told={told} {...place} width={width} height={height} />}
      <Box aria-live="polite" sx={HIDDEN}>
        {byKeyboard && trial ? `Member ${trial.index}: ${told(trial)}` : ""}
      </Box>
    </>
  );
}

interface WordsProperties {
  trial: Trial;
  told: (trial: Trial) => string;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The words about the member under the pointer. */
function Words({ trial, told, x, y, width, height }: WordsProperties) {
  return (
    <Tip
      style={{
        ...(y > height / 2 ? { bottom: height - y + 12 } : { top: y + 12 }),
        ...(x > width / 2 ? { right: Math.max(0, width - x + 8) } : { left: x + 8 }),
      }}
    >
      <strong>{`Member ${trial.index}`}</strong>
      <div>{told(trial)}</div>
    </Tip>
  );
}
