import Box from "@mui/material/Box";
import { useTheme } from "@mui/material/styles";
import { useEffect, useMemo, useRef } from "react";
import { prepared } from "../../canvas/canvas";
import { useWidth } from "../../canvas/useWidth";
import { shortened } from "./ParallelPlot";
import { PlotOverlay, type Marking } from "./PlotOverlay";
import { scaleOf, ticksOn, type Scale } from "./scales";
import { pointAt, pointBeside, pointsOf, type Points } from "./scatter";
import type { Trial } from "../trials/trials";

const HEIGHT_PX = 340;
const FAINT = 0.15;
const RADIUS_PX = 3.5;
const ROUND = 2 * Math.PI;

interface Properties extends Marking {
  trials: readonly Trial[];
  x: string;
  y: string;
  kept: ReadonlySet<number> | null;
  colourOf: (trial: Trial) => string;
  label: string;
}

/** One point a member: a parameter or result against another. */
export function ScatterPlot({ trials, x, y, kept, colourOf, label, ...marking }: Properties) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const width = useWidth(box);
  const across = useMemo(() => axisOf(trials, x), [trials, x]);
  const up = useMemo(() => axisOf(trials, y), [trials, y]);
  const points = useMemo(() => pointsOf(trials, across, up, Math.max(1, width), HEIGHT_PX), [trials, across, up, width]);
  const placeOf = (member: number | null) => trials.findIndex(({ index }) => index === member);

  useEffect(() => {
    const paint = canvas.current && width ? prepared(canvas.current, width, HEIGHT_PX) : null;
    if (!paint) return;
    drawFrame(paint, points, across, up, theme.palette);
    const isKept = (trial: Trial) => !kept || kept.has(trial.index);
    trials.forEach((trial, index) => !isKept(trial) && drawPoint(paint, points, index, theme.palette.text.secondary, FAINT));
    trials.forEach((trial, index) => isKept(trial) && drawPoint(paint, points, index, colourOf(trial), trials.length > 1_000 ? 0.7 : 0.9));
  }, [trials, points, across, up, kept, colourOf, width, theme]);

  const drawOver = (paint: CanvasRenderingContext2D) => {
    paint.strokeStyle = theme.palette.text.primary;
    for (const [member, size] of [[marking.selected, 3], [marking.marked, 2]] as const) {
      const place = placeOf(member);
      const [left = NaN, top = NaN] = [points.xs[place], points.ys[place]];
      if (Number.isNaN(left)) continue;
      paint.lineWidth = size;
      paint.beginPath();
      paint.arc(left, top, RADIUS_PX + 3, 0, ROUND);
      paint.stroke();
    }
  };
  const pointOf = (trial: Trial) => {
    const place = trials.indexOf(trial);
    const [left = NaN, top = NaN] = [points.xs[place], points.ys[place]];
    return Number.isNaN(left) ? null : { x: left, y: top };
  };
  return (
    <Box ref={box} sx={{ minWidth: 0, position: "relative", height: HEIGHT_PX }}>
      <canvas ref={canvas} aria-hidden="true" style={{ display: "block" }} />
      <PlotOverlay
        {...marking}
        label={label}
        width={width}
        height={HEIGHT_PX}
        drawOver={drawOver}
        trialAt={(pointerX, pointerY) => trials[pointAt(points, pointerX, pointerY)]}
        placeOf={pointOf}
        next={(from, key) => trials[pointBeside(points, placeOf(from), key)]}
      />
    </Box>
  );
}

interface Named {
  name: string;
  scale: Scale;
}

function axisOf(trials: readonly Trial[], name: string): Named {
  return { name, scale: scaleOf(trials.map(({ values }) => values.get(name))) ?? { kind: "words", words: [] } };
}

function drawPoint(paint: CanvasRenderingContext2D, { xs, ys }: Points, index: number, colour: string, alpha: number) {
  const [x = NaN, y = NaN] = [xs[index], ys[index]];
  if (Number.isNaN(x)) return;
  paint.globalAlpha = alpha;
  paint.fillStyle = colour;
  paint.beginPath();
  paint.arc(x, y, RADIUS_PX, 0, ROUND);
  paint.fill();
  paint.globalAlpha = 1;
}

interface Palette {
  text: { primary: string; secondary: string };
  divider: string;
}

function drawFrame(paint: CanvasRenderingContext2D, { left, right, top, bottom }: Points, across: Named, up: Named, { text, divider }: Palette) {
  paint.font = "12px system-ui, sans-serif";
  paint.lineWidth = 1;
  paint.strokeStyle = divider;
  paint.textBaseline = "middle";
  const line = (x1: number, y1: number, x2: number, y2: number) => {
    paint.beginPath();
    paint.moveTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
    paint.lineTo(Math.round(x2) + 0.5, Math.round(y2) + 0.5);
    paint.stroke();
  };
  paint.fillStyle = text.secondary;
  paint.textAlign = "right";
  for (const { at, word } of ticksOn(up.scale, 5)) {
    const y = bottom - at * (bottom - top);
    line(left, y, right, y);
    paint.fillText(shortened(paint, word, left - 12), left - 8, y);
  }
  const marks = ticksOn(across.scale, Math.max(2, Math.floor((right - left) / 90)));
  const room = (right - left) / Math.max(1, marks.length);
  marks.forEach(({ at, word }, index) => {
    const x = left + at * (right - left);
    line(x, top, x, bottom);
    paint.textAlign = index === 0 ? "left" : index === marks.length - 1 ? "right" : "center";
    paint.fillText(shortened(paint, word, room), x, bottom + 12);
  });
  paint.textAlign = "center";
  paint.fillText(`${shortened(paint, across.name, right - left - 40)}${across.scale.kind === "log" ? " (log)" : ""}`, (left + right) / 2, bottom + 30);
  if (up.scale.kind === "log") {
    paint.textAlign = "left";
    paint.fillText("(log)", left + 4, top + 8);
  }
}
