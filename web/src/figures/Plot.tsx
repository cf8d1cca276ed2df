import { useTheme } from "@mui/material/styles";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { timeLabels, timeRange, type Columns } from "./series";

const HEIGHT_PX = 140;
const LINES = ["#0b6e69", "#8a5200", "#1a5fb4", "#b3261e"];
const LINES_DARK = ["#5cc9c1", "#f0b45c", "#84b6f4", "#ff8a80"];

/** Return the colours of lines, in their order. */
export function lineColours(dark: boolean): readonly string[] {
  return dark ? LINES_DARK : LINES;
}

interface Properties {
  columns: Columns;
  /** Whether the columns are minimum, 10th, 50th, 90th percentile and maximum; else each is a line. */
  isBand: boolean;
  /** Times, in seconds, that are marked: beginnings of attempts. */
  marks: readonly number[];
  /** What the plot shows, for people who do not see it. */
  label: string;
  format: (value: number) => string;
  /** Called with the time under the pointer, in seconds; null if there is none. */
  onPoint: (time: number | null) => void;
  /** Called with the time of a click, in seconds, and whether it was in the upper half of the band. */
  onClick?: (time: number, isAbove: boolean) => void;
}

/** A plot over time. Plots of one page share the pointer; drag to look closer, double-click to return. */
export function Plot({ columns, isBand, marks, label, format, onPoint, onClick }: Properties) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const latest = useRef({ marks, onPoint, onClick, format });
  latest.current = { marks, onPoint, onClick, format };
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
      ctx.save();
      ctx.strokeStyle = ink;
      ctx.setLineDash([4, 4]);
      for (const time of latest.current.marks) {
        const x = drawn.valToPos(time, "x", true);
        if (x < bbox.left || x > bbox.left + bbox.width) continue;
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
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
        padding: [8, 44, 0, 0],
        cursor: { sync: { key: "figures" }, drag: { x: true, y: false }, points: { show: false } },
        scales: { x: { range: (_, first, last) => timeRange(first, last) } },
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
          { ...axis, size: 84, values: (_, values) => values.map((value) => latest.current.format(value)) },
        ],
        hooks: { draw: [drawMarks], setCursor: [pointed] },
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
  }, [isBand, lines, theme]);

  useEffect(() => plot.current?.setData(columns as uPlot.AlignedData), [columns]);
  return <div ref={element} role="img" aria-label={label} />;
}
