/** What a plot draws itself beside its lines: marks of times, and last values at the right end. */
import uPlot from "uplot";
import type { Columns, Marks, Span } from "../series";
import { lastValues, spread, type Shape } from "./shape";

/** Room at the right end for the last value. */
export const RIGHT_PX = 64;

const GROUND = 0.08;
const DARK_GROUND = 0.18;

/** Draw the grounds of spans, before the lines are drawn. */
export function drawSpans({ ctx, bbox, valToPos }: uPlot, spans: readonly Span[], ink: string): void {
  ctx.save();
  ctx.fillStyle = ink;
  for (const { from, until, isDark } of spans) {
    const left = Math.max(valToPos(from, "x", true), bbox.left);
    const right = Math.min(valToPos(until, "x", true), bbox.left + bbox.width);
    ctx.globalAlpha = isDark ? DARK_GROUND : GROUND;
    if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
  }
  ctx.restore();
}

/** Draw triangles at checkpoints and dashed lines at attempts. */
export function drawMarks({ ctx, bbox, valToPos }: uPlot, { attempts, checkpoints }: Marks, ink: string): void {
  const ratio = uPlot.pxRatio;
  const places = (times: readonly number[]) => times.map((time) => valToPos(time, "x", true)).filter((x) => x >= bbox.left && x <= bbox.left + bbox.width);
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
}

/** Draw the last value of each line at the right end, in the line's colour. */
export function drawLastValues(drawn: uPlot, shape: Shape, colourOf: (line: number) => string, format: (value: number) => string): void {
  const { ctx, bbox } = drawn;
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const lasts = lastValues(drawn.data as Columns, shape).map((last) => ({ ...last, y: drawn.valToPos(last.value, "y", true) }));
  // Without those outside of the part at which the person looks closer.
  const seen = lasts.filter(({ y }) => y >= bbox.top && y <= bbox.top + bbox.height);
  spread(seen, 12 * ratio).forEach(({ value, line, y }) => {
    ctx.fillStyle = colourOf(line);
    ctx.fillText(format(value), bbox.left + bbox.width + 6 * ratio, y, (RIGHT_PX - 8) * ratio);
  });
  ctx.restore();
}
