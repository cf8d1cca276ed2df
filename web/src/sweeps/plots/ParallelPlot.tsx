import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { useTheme, type Theme } from "@mui/material/styles";
import { useEffect, useMemo, useRef, useState, type PointerEvent } from "react";
import { prepared } from "../../canvas/canvas";
import { useWidth } from "../../canvas/useWidth";
import type { Condition } from "../filter";
import { axisAt, lineAt, linesOf, TOP_PX, widthOf, type Axis, type Lines } from "./parallel";
import { PlotOverlay, type Marking } from "./PlotOverlay";
import { numberAt, ticksOn } from "./scales";
import { numberWord, type Trial } from "../trials/trials";

const HEIGHT_PX = 340;
const FAINT = 0.08;

/** The right edge of a plot that goes on there. */
const EDGE = {
  position: "absolute",
  right: 0,
  bottom: 0,
  width: 32,
  pointerEvents: "none",
  backgroundImage: ({ palette }: Theme) => `linear-gradient(to right, transparent, ${palette.background.default})`,
} as const;

interface Properties extends Marking {
  trials: readonly Trial[];
  axes: readonly Axis[];
  /** Indices of the members that the filter leaves; null: all. */
  kept: ReadonlySet<number> | null;
  colourOf: (trial: Trial) => string;
  label: string;
  /** Called with the conditions of a range on an axis that was dragged; with none if the range is taken away. */
  brush: (name: string, conditions: Condition[]) => void;
}

interface Brush {
  axis: number;
  from: number;
  to: number;
}

/** One line a member, over one axis for each parameter and result. */
export function ParallelPlot({ trials, axes, kept, colourOf, label, brush, ...marking }: Properties) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const room = useWidth(box);
  const width = room && widthOf(axes.length, room);
  const lines = useMemo(() => linesOf(trials, axes, Math.max(1, width), HEIGHT_PX), [trials, axes, width]);
  const [scrolled, setScrolled] = useState(0);
  const outside = hiddenAxes(axes, lines, scrolled + room);
  const [drag, setDrag] = useState<Brush | null>(null);
  const { marked, selected, ranked } = marking;

  useEffect(() => {
    const paint = canvas.current && width ? prepared(canvas.current, width, HEIGHT_PX) : null;
    if (!paint) return;
    const isKept = (trial: Trial) => !kept || kept.has(trial.index);
    paint.lineJoin = "round";
    // Faint ones first: they must not cover the others.
    trials.forEach((trial, index) => !isKept(trial) && drawLine(paint, lines, index, theme.palette.text.secondary, FAINT, 1));
    const alpha = alphaOf(kept?.size ?? trials.length);
    trials.forEach((trial, index) => isKept(trial) && drawLine(paint, lines, index, colourOf(trial), alpha, 1.2));
    drawAxes(paint, lines, theme.palette);
  }, [trials, lines, kept, colourOf, width, theme]);

  const drawOver = (paint: CanvasRenderingContext2D) => {
    for (const [index, size] of [[selected, 3.5], [marked, 2.5]] as const) {
      const place = trials.findIndex((trial) => trial.index === index);
      if (place >= 0) drawLine(paint, lines, place, theme.palette.text.primary, 1, size);
    }
    if (!drag) return;
    const x = lines.xs[drag.axis] ?? 0;
    paint.fillStyle = theme.palette.primary.main;
    paint.globalAlpha = 0.35;
    paint.fillRect(x - 8, Math.min(drag.from, drag.to), 16, Math.abs(drag.to - drag.from));
    paint.globalAlpha = 1;
  };
  const place = (event: PointerEvent<Element>) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };
  const clamped = (y: number) => Math.min(lines.bottom, Math.max(lines.top, y));
  const begin = (event: PointerEvent<Element>) => {
    const { x, y } = place(event);
    const axis = axisAt(lines, x);
    if (axis < 0 || event.button !== 0 || event.pointerType === "touch") return;
    event.currentTarget.setPointerCapture(event.pointerId);
    setDrag({ axis, from: y, to: clamped(y) });
  };
  /** End a drag; whether it was one, and not a click. */
  const end = (): boolean => {
    const axis = drag && axes[drag.axis];
    setDrag(null);
    if (!drag || !axis) return false;
    if (drag.from < TOP_PX - 8) brush(axis.name, []);
    else if (Math.abs(drag.to - drag.from) < 4) return false;
    else brush(axis.name, conditionsBetween(axis, lines, clamped(drag.from), drag.to));
    return true;
  };
  const placeOf = (trial: Trial) => {
    const y = lines.ys[trials.indexOf(trial)]?.at(-1) ?? NaN;
    return { x: (lines.xs.at(-1) ?? 0) - 24, y: Number.isNaN(y) ? lines.top : y };
  };
  return (
    <Box sx={{ position: "relative" }}>
      {width > room && (
        <Typography color="textSecondary">{outside.length ? `Scroll sideways for ${outside.join(", ")}.` : "Scroll back for the first axes."}</Typography>
      )}
      <Box ref={box} onScroll={(event) => setScrolled(event.currentTarget.scrollLeft)} sx={{ minWidth: 0, overflowX: "auto", position: "relative" }}>
        <Box sx={{ position: "relative", height: HEIGHT_PX }} style={{ width: width || "100%" }}>
          <canvas ref={canvas} aria-hidden="true" style={{ display: "block" }} />
          <PlotOverlay
            {...marking}
            label={label}
            width={width}
            height={HEIGHT_PX}
            drawOver={drawOver}
            trialAt={(x, y) => (drag ? undefined : trials[lineAt(lines, x, y)])}
            next={(from, key) => {
              const at = ranked.findIndex(({ index }) => index === from);
              return ranked[Math.max(0, Math.min(ranked.length - 1, at + (key === "ArrowRight" || key === "ArrowDown" ? 1 : at < 0 ? 1 : -1)))];
            }}
            placeOf={placeOf}
            isBusy={drag !== null}
            begin={begin}
            move={(event) => drag && setDrag({ ...drag, to: clamped(place(event).y) })}
            end={end}
          />
        </Box>
      </Box>
      {outside.length > 0 && <Box aria-hidden sx={EDGE} style={{ height: HEIGHT_PX }} />}
    </Box>
  );
}

/** Return the names of the axes to the right of the visible part. */
function hiddenAxes(axes: readonly Axis[], { xs }: Lines, until: number): string[] {
  return axes.filter((_, index) => (xs[index] ?? 0) > until).map(({ name }) => name);
}

/** Many lines are drawn fainter, so that what is common among them shows. */
function alphaOf(count: number): number {
  return count > 3_000 ? 0.14 : count > 500 ? 0.45 : 0.85;
}

function drawLine(paint: CanvasRenderingContext2D, { xs, ys }: Lines, index: number, colour: string, alpha: number, size: number) {
  const line = ys[index];
  if (!line) return;
  paint.strokeStyle = colour;
  paint.globalAlpha = alpha;
  paint.lineWidth = size;
  paint.beginPath();
  let isDown = false;
  line.forEach((y, axis) => {
    const x = xs[axis] ?? 0;
    if (Number.isNaN(y)) isDown = false;
    else if (isDown) paint.lineTo(x, y);
    else {
      paint.moveTo(x, y);
      isDown = true;
    }
  });
  paint.stroke();
  paint.globalAlpha = 1;
}

interface Palette {
  text: { primary: string; secondary: string };
  background: { default: string };
}

function drawAxes(paint: CanvasRenderingContext2D, { axes, xs, top, bottom }: Lines, { text, background }: Palette) {
  paint.textBaseline = "middle";
  paint.lineWidth = 1;
  const room = (xs[1] ?? Infinity) - (xs[0] ?? 0);
  axes.forEach(({ name, scale }, index) => {
    const x = Math.round(xs[index] ?? 0) + 0.5;
    paint.strokeStyle = text.secondary;
    paint.beginPath();
    paint.moveTo(x, top);
    paint.lineTo(x, bottom);
    paint.stroke();
    paint.font = "600 12px system-ui, sans-serif";
    paint.fillStyle = text.primary;
    paint.textAlign = "center";
    const suffix = scale.kind === "log" ? " (log)" : "";
    paint.fillText(`${shortened(paint, name, Math.min(room, 200) - 12 - paint.measureText(suffix).width)}${suffix}`, x, 14);
    paint.font = "12px system-ui, sans-serif";
    paint.textAlign = "left";
    for (const { at, word } of ticksOn(scale, 5)) {
      const y = bottom - at * (bottom - top);
      const shown = shortened(paint, word, Math.min(room, 160) - 24);
      paint.globalAlpha = 0.75;
      paint.fillStyle = background.default;
      paint.fillRect(x + 5, y - 7, paint.measureText(shown).width + 4, 14);
      paint.globalAlpha = 1;
      paint.fillStyle = text.secondary;
      paint.fillRect(x - 3, Math.round(y), 6, 1);
      paint.fillText(shown, x + 7, y + 0.5);
    }
  });
}

/** Return the beginning of a text that is too wide. */
export function shortened(paint: CanvasRenderingContext2D, text: string, width: number): string {
  let until = text.length;
  while (until > 1 && paint.measureText(until < text.length ? `${text.slice(0, until)}…` : text).width > width) until--;
  return until < text.length ? `${text.slice(0, until)}…` : text;
}

/** Return the conditions of a range on an axis between two heights. */
function conditionsBetween({ name, scale }: Axis, { top, bottom }: Lines, from: number, to: number): Condition[] {
  const place = (y: number) => (bottom - y) / (bottom - top);
  const [low, high] = [place(Math.max(from, to)), place(Math.min(from, to))];
  if (scale.kind === "words") {
    const last = Math.max(1, scale.words.length - 1);
    const words = scale.words.filter((_, index) => index / last >= low - 0.02 && index / last <= high + 0.02);
    return words.length ? [{ name, sign: "=", value: words.join("|") }] : [];
  }
  // An end of the axis is no bound: values to come may lie beyond it.
  const lower: Condition[] = low > 0.005 ? [{ name, sign: ">=", value: numberWord(Number(numberAt(scale, low).toPrecision(3))) }] : [];
  const upper: Condition[] = high < 0.995 ? [{ name, sign: "<=", value: numberWord(Number(numberAt(scale, high).toPrecision(3))) }] : [];
  return [...lower, ...upper];
}
