import { alpha, useTheme } from "@mui/material/styles";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { DURATION_STEPS, lasted, logTicks, timeLabels, timeRange } from "./axes";
import { drawLastValues, drawMarks, drawSpans, RIGHT_PX } from "./drawing";
import { amount, type Columns, type Marks } from "../series";
import type { Shape } from "./shape";

const HEIGHT_PX = 140;
const POWERS_OF_TWO = Array.from({ length: 64 }, (_, exponent) => 2 ** exponent);
const LINES = ["#0b6e69", "#8a5200", "#1a5fb4", "#b3261e"];
const LINES_DARK = ["#5cc9c1", "#f0b45c", "#84b6f4", "#ff8a80"];
const FAINT = 0.35;
/** Room above and below the lines of a logarithmic axis, as a factor. */
const LOG_ROOM = 1.05;

const NONE: Marks = { attempts: [], checkpoints: [] };

/** What the horizontal axis of a plot means. */
export type Axis = "clock" | "duration" | "step";

/** Return the colours of lines, in their order. */
export function lineColours(dark: boolean): readonly string[] {
  return dark ? LINES_DARK : LINES;
}

interface Properties {
  columns: Columns;
  shape: Shape;
  /** clock: times in seconds since 1970; duration: seconds since a start; step: steps of the training. */
  axis?: Axis;
  /** Whether the vertical axis is logarithmic. All values must be above 0. */
  isLog?: boolean;
  /** The horizontal axis that all plots of a page share; without it that of the columns. */
  range?: readonly [number, number] | undefined;
  marks?: Marks | undefined;
  /** A description of the plot for people who do not see it. */
  label: string;
  format: (value: number) => string;
  /** Whether values are bytes, so that ticks are powers of two and have short labels. */
  isBytes?: boolean;
  /** Called with the place on the horizontal axis under the pointer; null if there is none. */
  onPoint: (place: number | null) => void;
  /** Called with the place of a click, and whether it was in the upper half of the band. */
  onClick?: (place: number, isAbove: boolean) => void;
}

/** Whether a range covers all data of a plot, and is not a part that a person selected. Around a single place uPlot makes a range of its own. */
function isWhole({ data: [places] }: uPlot, first: number | null, last: number | null): boolean {
  return places.length === 1 || (first === places[0] && last === places.at(-1));
}

function endsOf({ data: [places] }: uPlot): readonly [number | null, number | null] {
  return [places[0] ?? null, places.at(-1) ?? null];
}

/** Return the range of an axis of steps or durations: one place alone has room beside it. */
function widened(first: number | null, last: number | null): [number, number] {
  const [from, until] = [first ?? 0, last ?? 1];
  return from === until ? [from - 1, until + 1] : [from, until];
}

/** Return the horizontal axis with this meaning. */
function axisOf(kind: Axis): Pick<uPlot.Axis, "incrs" | "values"> {
  if (kind === "clock") return { values: (_, times, __, ___, step) => timeLabels(times, step) };
  if (kind === "duration") return { incrs: DURATION_STEPS, values: (_, times) => times.map(lasted) };
  return { values: (_, steps) => steps.map((step) => amount(step, "count")) };
}

/** A plot over time or steps. Plots of one page that have the same axis share the pointer; drag to look closer, double-click to return. */
export function Plot({ columns, shape, axis = "clock", isLog = false, range, marks = NONE, label, format, isBytes = false, onPoint, onClick }: Properties) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const latest = useRef({ range, marks, onPoint, onClick, format });
  latest.current = { range, marks, onPoint, onClick, format };
  const shapeText = JSON.stringify(shape);

  useEffect(() => {
    const target = element.current;
    if (!target) return;
    const { lines, areas, middle }: Shape = JSON.parse(shapeText);
    const colours = lineColours(theme.palette.mode === "dark");
    const ink = theme.palette.text.secondary;
    const colourOf = (index: number) => {
      const colour = lines[index]?.colour;
      return typeof colour === "number" ? (colours[colour % colours.length] ?? ink) : ink;
    };
    const hidden: uPlot.Series = { stroke: "transparent", width: 0, points: { show: false } };
    const series = lines.map(({ colour, isFaint }, index): uPlot.Series => {
      if (colour === null) return hidden;
      const stroke = isFaint ? alpha(colourOf(index), FAINT) : colourOf(index);
      return { stroke, width: 1.5, points: isFaint ? { show: false } : { size: 4 } };
    });
    const look: uPlot.Axis = {
      stroke: ink,
      grid: { stroke: theme.palette.divider, width: 1 },
      ticks: { show: false },
      font: "12px system-ui",
    };
    const widen = axis === "clock" ? timeRange : widened;
    const pointed = (drawn: uPlot) => {
      const { idx } = drawn.cursor;
      latest.current.onPoint(typeof idx === "number" ? (drawn.data[0][idx] ?? null) : null);
    };
    const made = new uPlot(
      {
        width: target.clientWidth,
        height: HEIGHT_PX,
        legend: { show: false },
        padding: [8, RIGHT_PX, 0, 0],
        cursor: { sync: { key: `figures-${axis}` }, drag: { x: true, y: false }, points: { show: false } },
        scales: {
          x: { time: axis === "clock", range: (drawn, first, last) => (isWhole(drawn, first, last) ? widen(...(latest.current.range ?? endsOf(drawn))) : widen(first, last)) },
          ...(isLog && { y: { distr: 3, range: (_, least, most) => [(least ?? 1) / LOG_ROOM, (most ?? 1) * LOG_ROOM] } }),
        },
        series: [{}, ...series],
        bands: areas.map(([upper, lower, opacity]) => ({ series: [upper + 1, lower + 1], fill: alpha(colourOf(middle ?? upper), opacity) })),
        axes: [
          { ...look, size: 28, space: 96, ...axisOf(axis) },
          {
            ...look,
            size: 84,
            ...(isBytes && { incrs: POWERS_OF_TWO }),
            ...(isLog && { splits: (_, __, least, most) => logTicks(least, most), filter: (_, ticks) => ticks }),
            values: (_, values) => values.map((value) => latest.current.format(value)),
          },
        ],
        hooks: {
          drawClear: [(drawn) => drawSpans(drawn, latest.current.marks.spans ?? [], ink)],
          draw: [(drawn) => drawMarks(drawn, latest.current.marks, ink), (drawn) => drawLastValues(drawn, { lines, areas, middle }, colourOf, latest.current.format)],
          setCursor: [pointed],
        },
      },
      columns as uPlot.AlignedData,
      target,
    );
    const clicked = () => {
      const { idx, top } = made.cursor;
      const place = typeof idx === "number" ? made.data[0][idx] : undefined;
      const half = typeof idx === "number" && middle !== null ? made.data[middle + 1]?.[idx] : undefined;
      if (place === undefined || typeof half !== "number" || top === undefined) return;
      latest.current.onClick?.(place, top < made.valToPos(half, "y"));
    };
    made.over.addEventListener("click", clicked);
    const resized = new ResizeObserver(() => made.setSize({ width: target.clientWidth, height: HEIGHT_PX }));
    resized.observe(target);
    plot.current = made;
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [axis, isBytes, isLog, shapeText, theme]);

  useEffect(() => plot.current?.setData(columns as uPlot.AlignedData), [columns, range?.[0], range?.[1], marks]);
  return <div ref={element} role="img" aria-label={label} />;
}
