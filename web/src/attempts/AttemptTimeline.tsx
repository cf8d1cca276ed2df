import Box from "@mui/material/Box";
import { useTheme } from "@mui/material/styles";
import useMediaQuery from "@mui/material/useMediaQuery";
import { ticksOf, timeLabels } from "../figures/plot/axes";
import { StateMark } from "../states/StateMark";
import { STATES } from "../states/states";
import { duration } from "../words/times/times";
import type { Segment } from "./segments";

const CLOCK = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
/** A label that is centred below its time. */
const AT = { position: "absolute", top: 0, transform: "translateX(-50%)", whiteSpace: "nowrap" } as const;
const ROW_PX = 22;
/** Of more attempts, the latest ones are drawn; the table has all. */
const MOST_ROWS = 24;

/** Return how far a label is moved beside its time, in its own width: near an end of the axis it stays inside. */
function nearEnd(time: number, from: number, until: number): string {
  const share = (time - from) / (until - from);
  return share < 0.06 ? "0" : share > 0.94 ? "-100%" : "-50%";
}

interface Properties {
  segments: readonly Segment[];
  /** Times at which checkpoints were written, in milliseconds. */
  checkpoints: readonly number[];
}

/** A run's life over time, one line an attempt. The table below it holds the same. */
export function AttemptTimeline({ segments, checkpoints }: Properties) {
  const isNarrow = useMediaQuery(useTheme().breakpoints.down("sm"));
  const dark = useTheme().palette.mode === "dark";
  const numbers = [...new Set(segments.map(({ attempt }) => attempt))].slice(-MOST_ROWS);
  const shown = segments.filter(({ attempt }) => numbers.includes(attempt));
  const [first, last] = [shown[0], shown.at(-1)];
  if (!first || !last) return null;
  const [from, until] = [first.from, last.until];
  const place = (time: number) => `${(100 * (time - from)) / Math.max(1, until - from)}%`;
  const { times, stepSeconds } = ticksOf(from / 1_000, until / 1_000, isNarrow ? 3 : 7);
  const labels = timeLabels(times, stepSeconds);
  const saved = checkpoints.filter((time) => time >= from && time <= until);
  const phases = [...new Set(shown.map(({ phase }) => phase))];
  return (
    <Box role="img" aria-label={`Timeline of ${numbers.length} attempts. The table holds the same.`} sx={{ mb: 4 }}>
      <Box sx={{ display: "flex", flexWrap: "wrap", gap: 4, mb: 2 }}>
        {phases.map((phase) => (
          <StateMark key={phase} phase={phase} />
        ))}
        {saved.length > 0 && <span>▲ Checkpoint</span>}
      </Box>
      <Box sx={{ display: "grid", gridTemplateColumns: "auto minmax(0, 1fr)", columnGap: 3 }}>
        {numbers.map((number) => [
          <Box key={`name ${number}`} sx={{ color: "text.secondary", lineHeight: `${ROW_PX}px`, fontVariantNumeric: "tabular-nums", textAlign: "right" }}>
            {number}
          </Box>,
          <Box key={`line ${number}`} sx={{ position: "relative", height: ROW_PX }}>
            {shown
              .filter(({ attempt }) => attempt === number)
              .map((segment) => {
                const { phase, from: begin, until: end, reason } = segment;
                const state = STATES[phase];
                const colour = dark ? state.dark : state.light;
                const isFull = phase === "Running";
                return (
                  <Box
                    key={`${phase} ${begin}`}
                    title={`${state.word} for ${duration((end - begin) / 1000)}, from ${CLOCK.format(begin)}${reason ? `; then ${reason}` : ""}`}
                    sx={{
                      position: "absolute",
                      top: 3,
                      height: ROW_PX - 6,
                      minWidth: 3,
                      boxSizing: "border-box",
                      border: 1,
                      borderColor: colour,
                      borderRadius: "2px",
                      bgcolor: isFull ? colour : "transparent",
                      background: isFull ? undefined : `repeating-linear-gradient(${phase === "Starting" ? 45 : 135}deg, ${colour}66 0 3px, transparent 3px ${phase === "Starting" ? 6 : 9}px)`,
                    }}
                    style={{ left: place(begin), right: `calc(100% - ${place(end)})` }}
                  />
                );
              })}
          </Box>,
        ])}
        <span />
        <Box sx={{ position: "relative", height: saved.length ? 36 : 20, borderTop: 1, borderColor: "divider", color: "text.secondary", fontSize: 12, lineHeight: "16px", overflow: "hidden" }}>
          {saved.map((time) => (
            <Box key={time} component="span" title={`Checkpoint at ${CLOCK.format(time)}`} sx={AT} style={{ left: place(time) }}>
              ▲
            </Box>
          ))}
          {times.map((time, index) => (
            <Box key={time} component="span" sx={{ ...AT, top: saved.length ? 18 : 2 }} style={{ left: place(time * 1_000), transform: `translateX(${nearEnd(time * 1_000, from, until)})` }}>
              {labels[index]}
            </Box>
          ))}
        </Box>
      </Box>
    </Box>
  );
}
