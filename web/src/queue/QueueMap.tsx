import Box from "@mui/material/Box";
import { useTheme } from "@mui/material/styles";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent, type MouseEvent } from "react";
import { STATES } from "../states/states";
import { HIDDEN, prepared } from "../words/canvas";
import { HOUR_AND_MINUTE, MONTH_AND_DAY } from "../words/times";
import { useWidth } from "../words/useWidth";
import { AXIS_PX, barAt, barBeside, gutterOf, LANE_PX, placed, TITLE_PX, xOf, type Placed } from "./placing";
import { ticks, timelineOf, type Rowed, type Tick } from "./timeline";
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

const ARROWS: readonly string[] = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"];

/** The queue into the future, on one canvas. Arrow keys move from run to run, Enter opens one. */
export function QueueMap({ runs, rowed, from, until, now, selected, select }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const width = useWidth(box);
  const [marked, setMarked] = useState<{ index: number; key: string; byKeyboard: boolean }>(NOTHING);
  const timeline = useMemo(() => timelineOf(runs, rowed, from, until), [runs, rowed, from, until]);
  const layout = useMemo(() => placed(timeline, from, until, Math.max(1, width)), [timeline, from, until, width]);
  const at = placeOf(layout, marked);
  const bar = layout.bars[at];
  const mark = (index: number, byKeyboard: boolean) => {
    const found = layout.bars[index];
    setMarked(found ? { index, key: keyOf(found.run), byKeyboard } : NOTHING);
  };

  useEffect(() => {
    const paint = canvas.current && width ? prepared(canvas.current, width, layout.height) : null;
    if (!paint) return;
    const { mode, text, divider, background } = theme.palette;
    const colours = { dark: mode === "dark", words: text.secondary, line: divider, ground: background.default };
    draw(paint, layout, ticks(from, until, width - gutterOf(width), HOUR_AND_MINUTE, MONTH_AND_DAY), { from, until, now, width }, colours);
  }, [layout, width, from, until, now, theme]);

  useEffect(() => {
    const paint = overlay.current && width ? prepared(overlay.current, width, layout.height) : null;
    if (!paint) return;
    paint.strokeStyle = theme.palette.text.primary;
    layout.bars.forEach((each, index) => {
      const isSelected = keyOf(each.run) === selected;
      if (!isSelected && index !== at) return;
      paint.lineWidth = isSelected ? 2.5 : 1.5;
      paint.strokeRect(each.x + 0.5, each.y + 1.5, each.width - 1, LANE_PX - 4);
    });
  }, [layout, width, at, selected, theme]);

  const pointed = (event: MouseEvent) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    return barAt(layout, event.clientX - left, event.clientY - top);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Enter" && bar) return select(keyOf(bar.run));
    if (!ARROWS.includes(event.key)) return;
    event.preventDefault();
    const start = at >= 0 ? at : layout.bars.findIndex(({ run }) => keyOf(run) === selected);
    mark(barBeside(layout, start, event.key as "ArrowUp"), true);
  };
  return (
    <Box ref={box} sx={{ position: "relative", minWidth: 0 }}>
      <canvas ref={canvas} aria-hidden="true" style={{ display: "block" }} />
      <Box
        component="canvas"
        ref={overlay}
        tabIndex={0}
        role="img"
        aria-label={`Timeline of ${layout.bars.length} runs. Arrow keys move, Enter opens a run. The table holds the same.`}
        onMouseMove={(event) => {
          const index = pointed(event);
          if (index !== at) mark(index, false);
        }}
        onMouseLeave={() => setMarked(NOTHING)}
        onBlur={() => setMarked(NOTHING)}
        onClick={(event) => {
          const found = layout.bars[pointed(event)];
          if (found) select(keyOf(found.run));
        }}
        onKeyDown={press}
        sx={{
          position: "absolute",
          inset: 0,
          cursor: bar ? "pointer" : "default",
          "&:focus-visible": { outline: "2px solid", outlineColor: "primary.main", outlineOffset: 2 },
        }}
      />
      {bar && (
        <Box
          sx={{ position: "absolute", zIndex: 2, pointerEvents: "none", maxWidth: 320, p: 2, border: 1, borderColor: "divider", borderRadius: 1, bgcolor: "background.paper", boxShadow: 3, overflowWrap: "anywhere" }}
          style={{ top: bar.y + LANE_PX + 4, ...(bar.x > width / 2 ? { right: Math.max(0, width - bar.x - bar.width) } : { left: bar.x }) }}
        >
          <strong>{keyOf(bar.run)}</strong>
          <div>{told(bar.run, now)}</div>
        </Box>
      )}
      <Box aria-live="polite" sx={HIDDEN}>
        {marked.byKeyboard && bar ? `${keyOf(bar.run)}: ${told(bar.run, now)}` : ""}
      </Box>
    </Box>
  );
}

const NOTHING = { index: -1, key: "", byKeyboard: false };

/** Return the index of a marked bar, also after other bars have come or gone. */
function placeOf({ bars }: Placed, { index, key }: { index: number; key: string }): number {
  const there = bars[index];
  return there && keyOf(there.run) === key ? index : bars.findIndex(({ run }) => keyOf(run) === key);
}

interface View {
  from: number;
  until: number;
  now: number;
  width: number;
}

interface Colours {
  dark: boolean;
  words: string;
  line: string;
  ground: string;
}

function draw(paint: CanvasRenderingContext2D, layout: Placed, marks: Tick[], view: View, colours: Colours) {
  const toX = (time: number) => xOf(time, view.from, view.until, view.width);
  const gutter = gutterOf(view.width);
  paint.font = "12px system-ui, sans-serif";
  paint.textBaseline = "middle";
  paint.lineWidth = 1;
  for (const { at, word } of marks) {
    const x = Math.round(toX(at)) + 0.5;
    paint.fillStyle = colours.words;
    if (x + 60 < view.width) paint.fillText(word, x + 4, AXIS_PX / 2);
    line(paint, x, layout.height, colours.line);
  }
  for (const { text, y } of layout.titles) {
    const words = gutter ? shortened(paint, text, gutter - 12) : text;
    paint.fillStyle = colours.ground;
    if (!gutter) paint.fillRect(0, y + 2, paint.measureText(words).width + 8, TITLE_PX - 4);
    paint.fillStyle = colours.words;
    paint.fillText(words, 0, y + TITLE_PX / 2);
  }
  for (const bar of layout.bars) drawBar(paint, bar, colours);
  const x = Math.round(toX(view.now)) + 0.5;
  line(paint, x, layout.height, colours.dark ? "#ff8a80" : "#b3261e");
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

/** A running run is full, a waiting one hollow, with a thick edge if nodes are reserved for it. Where the end is uncertain, it is striped. */
function drawBar(paint: CanvasRenderingContext2D, bar: Placed["bars"][number], { dark }: Colours) {
  const state = STATES[bar.run.state === "running" ? "Running" : "Queued"];
  const colour = dark ? state.dark : state.light;
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
  if (!isRunning) paint.strokeRect(bar.x, top, bar.width, high);
  const text = `${bar.run.name}${bar.run.gpus ? `  ${bar.run.gpus} GPUs` : ""}`;
  if (bar.width > 48) {
    const isOnColour = isRunning && sure > 60;
    paint.fillStyle = isOnColour ? (dark ? "#10201f" : "#ffffff") : dark ? "#e6e9ec" : "#1c2227";
    paint.font = "12px system-ui, sans-serif";
    paint.textBaseline = "middle";
    paint.fillText(text, bar.x + 6, top + high / 2 + 1);
  }
  paint.restore();
}
