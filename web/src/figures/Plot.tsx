import { useTheme } from "@mui/material/styles";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { lastValues, spread, timeLabels, timeRange, type Columns, type Marks } from "./series";

const HEIGHT_PX = 140;
/** Room at the right end for the last value. */
const RIGHT_PX = 64;
const POWERS_OF_TWO = Array.from({ length: 64 }, (_, exponent) => 2 ** exponent);
const LINES = ["#0b6e69", "#8a5200", "#1a5fb4", "#b3261e"];
const LINES_DARK = ["#5cc9c1", "#f0b45c", "#84b6f4", "#ff8a80"];

const NONE: Marks = { attempts: [], checkpoints: [] };

/** Return the colours of lines, in their order. */
export function lineColours(dark: boolean): readonly string[] {
  return dark ? LINES_DARK : LINES;
}

interface Properties {
  columns: Columns;
  /** Whether the columns are minimum, 10th, 50th, 90th percentile and maximum; else each is a line. */
  isBand: boolean;
  /** The time axis that all plots of a page share, in seconds; without it that of the columns. */
  range?: readonly [number, number] | undefined;
  marks?: Marks | undefined;
  /** A description of the plot for people who do not see it. */
  label: string;
  format: (value: number) => string;
  /** Whether values are bytes, so that ticks are powers of two and have short labels. */
  isBytes?: boolean;
  /** Called with the time under the pointer, in seconds; null if there is none. */
  onPoint: (time: number | null) => void;
  /** Called with the time of a click, in seconds, and whether it was in the upper half of the band. */
  onClick?: (time: number, isAbove: boolean) => void;
}

/** Whether a time range covers all data of a plot, and is not a part that a person selected. */
function isWhole(plot: uPlot, first: number | null, last: number | null): boolean {
  return first === plot.data[0][0] && last === plot.data[0].at(-1);
}

/** A plot over time. Plots of one page share the pointer; drag to look closer, double-click to return. */
export function Plot({ columns, isBand, range, marks = NONE, label, format, isBytes = false, onPoint, onClick }: Properties) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const latest = useRef({ range, marks, onPoint, onClick, format });
  latest.current = { range, marks, onPoint, onClick, format };
  const lines = columns.length - 1;

  useEffect(() => {
    const target = element.current;
    if (!target) return;
    const dark = theme.palette.mode === "dark";
    const colours = lineColours(dark);
    const ink = theme.palette.text.secondary;
    const line = (index: number): uPlot.Series => ({
      stroke: colours[index % colours.length] ?? ink,
      width: 1.5,
      points: { size: 4 },
    });
    const hidden: uPlot.Series = { stroke: "transparent", width: 0, points: { show: false } };
    const axis: uPlot.Axis = {
      stroke: ink,
      grid: { stroke: theme.palette.divider, width: 1 },
      ticks: { show: false },
      font: "12px system-ui",
    };
    const drawMarks = (drawn: uPlot) => {
      const { ctx, bbox } = drawn;
      const { attempts, checkpoints } = latest.current.marks;
      const ratio = uPlot.pxRatio;
      const places = (times: readonly number[]) => times.map((time) => drawn.valToPos(time, "x", true)).filter((x) => x >= bbox.left && x <= bbox.left + bbox.width);
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = ink;
      for (const x of places(checkpoints)) {
        const bottom = bbox.top + bbox.height;
        ctx.beginPath();
        ctx.moveTo(x, bottom - 7 * ratio);
        ctx.lineTo(x + 4 * ratio, bottom);
        ctx.lineTo(x - 4 * ratio, bottom);
        ctx.fill();
      }
      ctx.setLineDash([4 * ratio, 4 * ratio]);
      for (const x of places(attempts)) {
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.restore();
    };
    const drawLast = (drawn: uPlot) => {
      const { ctx, bbox } = drawn;
      const ratio = uPlot.pxRatio;
      ctx.save();
      ctx.font = `${11 * ratio}px system-ui`;
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      const lasts = lastValues(drawn.data as Columns, isBand).map((last) => ({ ...last, y: drawn.valToPos(last.value, "y", true) }));
      // Without those outside of the part at which the person looks closer.
      const seen = lasts.filter(({ y }) => y >= bbox.top && y <= bbox.top + bbox.height);
      spread(seen, 12 * ratio).forEach(({ value, line: index, y }) => {
        ctx.fillStyle = colours[index % colours.length] ?? ink;
        ctx.fillText(latest.current.format(value), bbox.left + bbox.width + 6 * ratio, y, (RIGHT_PX - 8) * ratio);
      });
      ctx.restore();
    };
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
        cursor: { sync: { key: "figures" }, drag: { x: true, y: false }, points: { show: false } },
        scales: { x: { range: (drawn, first, last) => (latest.current.range && isWhole(drawn, first, last) ? timeRange(...latest.current.range) : timeRange(first, last)) } },
        series: [
          {},
          ...(isBand
            ? [hidden, hidden, line(0), hidden, hidden]
            : Array.from({ length: lines }, (_, index) => line(index))),
        ],
        bands: isBand
          ? [
              { series: [5, 1], fill: `${colours[0]}26` },
              { series: [4, 2], fill: `${colours[0]}40` },
            ]
          : [],
        axes: [
          { ...axis, size: 28, space: 96, values: (_, times, __, ___, step) => timeLabels(times, step) },
          { ...axis, size: 84, ...(isBytes && { incrs: POWERS_OF_TWO }), values: (_, values) => values.map((value) => latest.current.format(value)) },
        ],
        hooks: { draw: [drawMarks, drawLast], setCursor: [pointed] },
      },
      columns as uPlot.AlignedData,
      target,
    );
    const clicked = () => {
      const { idx, top } = made.cursor;
      const time = typeof idx === "number" ? made.data[0][idx] : undefined;
      const middle = typeof idx === "number" ? made.data[3]?.[idx] : undefined;
      if (time === undefined || typeof middle !== "number" || top === undefined) return;
      latest.current.onClick?.(time, top < made.valToPos(middle, "y"));
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
  }, [isBand, isBytes, lines, theme]);

  useEffect(() => plot.current?.setData(columns as uPlot.AlignedData), [columns, range?.[0], range?.[1], marks]);
  return <div ref={element} role="img" aria-label={label} />;
}
