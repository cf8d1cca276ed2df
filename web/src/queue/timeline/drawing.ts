/** How the timeline of the queue is drawn. */
import { STATES } from "../../states/states";
import { anyGpus } from "../../words/amounts";
import { isTrial } from "../trials";
import type { QueueRow } from "../useQueue";
import { AXIS_PX, firstAt, gutterOf, LANE_PX, roomForName, TITLE_PX, xOf, type Placed, type PlacedBar } from "./placing";
import type { Tick } from "./timeline";

/** The part of the timeline that is drawn, in pixels, and its times. */
export interface View {
  from: number;
  until: number;
  now: number;
  width: number;
  /** Pixels of the map above the view. */
  top: number;
  height: number;
}

export interface Colours {
  dark: boolean;
  words: string;
  line: string;
  ground: string;
}

/** Bars that are shorter have no name. */
const LEAST_NAMED_PX = 28;
const NOW_WORD = "now";

/** Draw the rows that are seen, below an axis that stays. */
export function drawTimeline(paint: CanvasRenderingContext2D, layout: Placed, marks: Tick[], view: View, colours: Colours) {
  const { top, height, width } = view;
  const toX = (time: number) => Math.round(xOf(time, view.from, view.until, width)) + 0.5;
  paint.font = "12px system-ui, sans-serif";
  paint.textBaseline = "middle";
  paint.lineWidth = 1;
  const present = toX(view.now);
  for (const { at } of marks) line(paint, toX(at), height, colours.line);
  drawTitles(paint, layout, view, colours);
  for (let index = firstAt(layout.bars, top - LANE_PX); index < layout.bars.length; index++) {
    const bar = layout.bars[index]!;
    if (bar.y > top + height) break;
    drawBar(paint, { ...bar, y: bar.y - top }, present, colours);
  }
  paint.fillStyle = colours.ground;
  if (top) paint.fillRect(0, 0, width, AXIS_PX);
  const red = colours.dark ? "#ff8a80" : "#b3261e";
  const nowEnd = present + 4 + paint.measureText(NOW_WORD).width;
  for (const { at, word } of marks) {
    const [x, end] = [toX(at) + 4, toX(at) + 4 + paint.measureText(word).width];
    paint.fillStyle = colours.words;
    // A word that the word "now" would cover is left out: the line of its time stays.
    if (end < width && (end < present - 4 || x > nowEnd + 4)) paint.fillText(word, x, AXIS_PX / 2);
  }
  line(paint, present, height, red);
  paint.fillStyle = red;
  paint.fillText(NOW_WORD, present + 4, AXIS_PX / 2);
}

function drawTitles(paint: CanvasRenderingContext2D, { titles }: Placed, { top, height, width }: View, { ground, words: colour }: Colours) {
  const gutter = gutterOf(width);
  for (let index = firstAt(titles, top - TITLE_PX); index < titles.length; index++) {
    const { text, y } = titles[index]!;
    if (y > top + height) break;
    const words = gutter ? shortened(paint, text, gutter - 12) : text;
    paint.fillStyle = ground;
    if (!gutter) paint.fillRect(0, y - top + 2, paint.measureText(words).width + 8, TITLE_PX - 4);
    paint.fillStyle = colour;
    paint.fillText(words, 0, y - top + TITLE_PX / 2);
  }
}

/** Return the name of a run, with its GPUs if there is room for both; its beginning if there is none for the name. */
function nameIn(paint: CanvasRenderingContext2D, { name, gpus }: QueueRow, width: number): string {
  const fits = (text: string) => paint.measureText(text).width <= width;
  const whole = gpus ? `${name}  ${anyGpus(gpus)}` : name;
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

/** Draw a calm ground for words on stripes. */
function drawGround(paint: CanvasRenderingContext2D, colour: string, x: number, y: number, width: number, height: number) {
  paint.save();
  paint.globalAlpha = 0.85;
  paint.fillStyle = colour;
  paint.fillRect(x, y, width, height);
  paint.restore();
}

/** Draw a bar: full for a running run, hollow for a waiting one, dashed for a what-if; with a thick edge if nodes are reserved for it, and striped where its end is uncertain. */
function drawBar(paint: CanvasRenderingContext2D, bar: PlacedBar, present: number, { dark, ground }: Colours) {
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
    const { x, width } = roomForName(bar, present);
    const name = nameIn(paint, bar.run, width);
    if (!isOnColour) drawGround(paint, ground, x - 4, top + 2, paint.measureText(name).width + 8, high - 4);
    paint.fillText(name, x, top + high / 2 + 1);
  }
  paint.restore();
}
