import { useTheme } from "@mui/material/styles";
import { useCallback, useMemo, useRef } from "react";
import { CanvasMap } from "../../canvas/CanvasMap";
import { HOUR_AND_MINUTE, MONTH_AND_DAY } from "../../words/times/times";
import { useWidth } from "../../canvas/useWidth";
import { drawTimeline } from "./drawing";
import { AXIS_PX, barAt, barBeside, gutterOf, LANE_PX, placed, type PlacedBar } from "./placing";
import { ticks, timelineOf, type Rowed } from "./timeline";
import { isTrial } from "../trials";
import type { QueueRow } from "../useQueue";
import { keyOf, told } from "../words";

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
