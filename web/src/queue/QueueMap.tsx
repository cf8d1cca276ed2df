import { useTheme } from "@mui/material/styles";
import { useCallback, useMemo, useRef } from "react";
import { STATES } from "../states/states";
import { CanvasMap } from "../canvas/CanvasMap";
import { HOUR_AND_MINUTE, MONTH_AND_DAY } from "../words/times";
import { useWidth } from "../canvas/useWidth";
import { AXIS_PX, barAt, barBeside, firstAt, gutterOf, LANE_PX, placed, TITLE_PX, xOf, type Placed, type PlacedBar } from "./placing";
import { ticks, timelineOf, type Rowed, type Tick } from "./timeline";
import { isTrial } from "./trials";
import type { QueueRow } from "./useQueue";
import { keyOf, told } from "./words";

interface Props {
  runs: readonly QueueRow[];
  rowed: Rowed;
  from: number;
  until: number;
  now: number;
  /** `namespace/name` of the run that is shown beside the timeline. */
  selected: string;
  select: (key: string) => void;
}

/** Height of the page around the timeline: a timeline of thousands of nodes scrolls in the rest. */
const AROUND_PX = 240;
const LEAST_VIEW_PX = 360;
/** Bars that are shorter have no name. */
const LEAST_NAMED_PX = 28;

/** The queue into the future, on one canvas. Arrow keys move from run to run, Enter opens one. */
export function QueueMap({ runs, rowed, from, until, now, selected, select }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const { palette } = useTheme();
  const width = useWidth(box);
  const timeline = useMemo(() => timelineOf(runs, rowed, from, until), [runs, rowed, from, until]);
  const layout = useMemo(() => placed(timeline, from, until, Math.max(1, width)), [timeline, from, until, width]);
  const count = useMemo(() => new Set(layout.bars.map(keyOfBar)).size, [layout]);
  const draw = useCallback(
    (paint: CanvasRenderingContext2D, top: number, height: number) => {
      const colours = { dark: palette.mode === "dark", words: palette.text.secondary, line: palette.divider, ground: palette.background.default };
      const marks = ticks(from, until, width - gutterOf(width), HOUR_AND_MINUTE, MONTH_AND_DAY);
      drawTimeline(paint, layout, marks, { from, until, now, width, top, height }, colours);
    },
    [layout, width, from, until, now, palette],
  );
  return (
    <CanvasMap
      box={box}
      label={`Timeline of ${count} ${count === 1 ? "run" : "runs"}. Arrow keys move, Enter opens a run. The table holds the same.`}
      items={layout.bars}
      keyOf={keyOfBar}
      boxOf={outlineOf}
      width={width}
      height={layout.height}
      viewHeight={Math.max(LEAST_VIEW_PX, window.innerHeight - AROUND_PX)}
      headHeight={AXIS_PX}
      draw={draw}
      itemAt={(x, y) => barAt(layout, x, y)}
      beside={(at, key) => barBeside(layout, at, key)}
      selected={selected}
      select={select}
      told={({ run }) => ({ title: isTrial(run) ? run.name : keyOf(run), words: told(run, now) })}
    />
  );
}

function keyOfBar({ run }: PlacedBar): string {
  return keyOf(run);
}

function outlineOf({ x, y, width }: PlacedBar) {
  return { x: x + 0.5, y: y + 1.5, width: width - 1, height: LANE_PX - 4 };
}

interface View {
  from: number;
  until: number;
  now: number;
  width: number;
  /** Pixels of the map above the view. */
  top: number;
  height: number;
}

interface Colours {
  dark: boolean;
  words: string;
  line: string;
  ground: string;
}

/** Draw the rows that are seen, below an axis that stays. */
function drawTimeline(paint: CanvasRenderingContext2D, layout: Placed, marks: Tick[], view: View, colours: Colours) {
  const { top, height, width } = view;
  const toX = (time: number) => Math.round(xOf(time, view.from, view.until, width)) + 0.5;
  const gutter = gutterOf(width);
  paint.font = "12px system-ui, sans-serif";
  paint.textBaseline = "middle";
  paint.lineWidth = 1;
  for (const { at } of marks) line(paint, toX(at), height, colours.line);
  for (let index = firstAt(layout.titles, top - TITLE_PX); index < layout.titles.length; index++) {
    const { text, y } = layout.titles[index]!;
    if (y > top + height) break;
    const words = gutter ? shortened(paint, text, gutter - 12) : text;
    paint.fillStyle = colours.ground;
    if (!gutter) paint.fillRect(0, y - top + 2, paint.measureText(words).width + 8, TITLE_PX - 4);
    paint.fillStyle = colours.words;
    paint.fillText(words, 0, y - top + TITLE_PX / 2);
  }
  for (let index = firstAt(layout.bars, top - LANE_PX); index < layout.bars.length; index++) {
    const bar = layout.bars[index]!;
    if (bar.y > top + height) break;
    drawBar(paint, { ...bar, y: bar.y - top }, colours);
  }
  paint.fillStyle = colours.ground;
  if (top) paint.fillRect(0, 0, width, AXIS_PX);
  for (const { at, word } of marks) {
    paint.fillStyle = colours.words;
    if (toX(at) + 60 < width) paint.fillText(word, toX(at) + 4, AXIS_PX / 2);
  }
  line(paint, toX(view.now), height, colours.dark ? "#ff8a80" : "#b3261e");
}

/** Return the name of a run, with its GPUs if there is room for both; its beginning if there is none for the name. */
function nameIn(paint: CanvasRenderingContext2D, { name, gpus }: QueueRow, width: number): string {
  const fits = (text: string) => paint.measureText(text).width <= width;
  const whole = gpus ? `${name}  ${gpus} GPUs` : name;
  if (fits(whole)) return whole;
  if (fits(name)) return name;
  let length = name.length;
  while (length > 0 && !fits(`${name.slice(0, length)}…`)) length--;
  return length > 0 ? `${name.slice(0, length)}…` : "";
}

/** Return the end of a text that is too wide: names of nodes differ there. */
function shortened(paint: CanvasRenderingContext2D, text: string, width: number): string {
  let from = 0;
  while (from < text.length && paint.measureText(`…${text.slice(from)}`).width > width) from++;
  return from > 1 ? `…${text.slice(from)}` : text;
}

function line(paint: CanvasRenderingContext2D, x: number, height: number, colour: string) {
  paint.strokeStyle = colour;
  paint.beginPath();
  paint.moveTo(x, 0);
  paint.lineTo(x, height);
  paint.stroke();
}

/** A running run is full, a waiting one hollow, a what-if dashed, with a thick edge if nodes are reserved for it. Where the end is uncertain, it is striped. */
function drawBar(paint: CanvasRenderingContext2D, bar: Placed["bars"][number], { dark }: Colours) {
  const state = STATES[bar.run.state === "running" ? "Running" : "Queued"];
  const trial = dark ? "#f0b45c" : "#8a5200";
  const colour = isTrial(bar.run) ? trial : dark ? state.dark : state.light;
  const [top, high] = [bar.y + 2, LANE_PX - 5];
  const isRunning = bar.run.state === "running";
  const endless = !Number.isFinite(bar.until);
  const sure = endless ? 0 : bar.sure;
  paint.save();
  paint.beginPath();
  paint.rect(bar.x, top, bar.width, high);
  paint.clip();
  paint.fillStyle = colour;
  paint.strokeStyle = colour;
  if (isRunning) paint.fillRect(bar.x, top, sure, high);
  paint.globalAlpha = isRunning ? 0.35 : 0.12;
  paint.fillRect(bar.x + (isRunning ? sure : 0), top, bar.width, high);
  paint.globalAlpha = 0.6;
  paint.lineWidth = 1;
  const striped = sure < bar.width ? bar.x + sure : Infinity;
  for (let x = striped; x < bar.x + bar.width; x += 7) {
    paint.beginPath();
    paint.moveTo(x, top + high);
    paint.lineTo(x + high, top);
    paint.stroke();
  }
  paint.globalAlpha = 1;
  paint.lineWidth = bar.run.nodes && !isRunning ? 4 : 2;
  if (isTrial(bar.run)) paint.setLineDash([6, 4]);
  if (!isRunning) paint.strokeRect(bar.x, top, bar.width, high);
  if (bar.width > LEAST_NAMED_PX) {
    const isOnColour = isRunning && sure >= Math.min(60, bar.width);
    paint.fillStyle = isOnColour ? (dark ? "#10201f" : "#ffffff") : dark ? "#e6e9ec" : "#1c2227";
    paint.font = "12px system-ui, sans-serif";
    paint.textBaseline = "middle";
    paint.fillText(nameIn(paint, bar.run, bar.width - 10), bar.x + 6, top + high / 2 + 1);
  }
  paint.restore();
}
