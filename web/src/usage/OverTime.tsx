import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { useState, type PointerEvent } from "react";
import { Problem } from "../app/Problem";
import { exact } from "../words/times/times";
import { columnsOf, heightInWords, timeByOf, titleOf, type Column } from "./overTime";
import { isByTime, measureOf, type Measure, type Question, type TimeBy } from "./usage";
import { useUsage } from "./useUsage";

const HEIGHT_PX = 120;
/** Part of its place that a column fills. */
const FILLED = 0.85;

/** How much was in use over time, by days or hours: of the runs that the question is about. */
export function OverTime({ question }: { question: Question }) {
  const by: TimeBy = isByTime(question.by) ? question.by : timeByOf(question.span, Date.now());
  const usage = useUsage({ ...question, by });
  if (usage.error && !usage.data) return <Problem error={usage.error} retry={() => void usage.refetch()} />;
  if (!usage.data || usage.data.by !== by) return <Box sx={{ height: HEIGHT_PX + 48 }} />;
  const measure = measureOf(usage.data, question.measure);
  return <Columns columns={columnsOf(usage.data, measure)} by={by} measure={measure} currency={usage.data.currency} />;
}

interface Properties {
  columns: readonly Column[];
  by: TimeBy;
  measure: Measure;
  currency: string;
}

/** Columns over time. The one under the pointer is put into words. */
function Columns({ columns, by, measure, currency }: Properties) {
  const [pointed, point] = useState<number | null>(null);
  const most = Math.max(...columns.map(({ height }) => height), 0);
  const [first, last] = [columns[0], columns.at(-1)];
  if (!first || !last || !most) return null;
  const title = titleOf(by, measure);
  const move = ({ clientX, currentTarget }: PointerEvent<SVGSVGElement>) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    point(Math.min(Math.max(0, Math.floor(((clientX - left) / width) * columns.length)), columns.length - 1));
  };
  const shown = (pointed === null ? undefined : columns[pointed]) ?? last;
  return (
    <Box component="section" aria-label={title} sx={{ mb: 5 }}>
      <Box sx={{ display: "flex", flexWrap: "wrap", columnGap: 4, justifyContent: "space-between" }}>
        <Typography variant="h2">{title}</Typography>
        <Typography color="textSecondary">{shown.words}</Typography>
      </Box>
      <Box sx={{ position: "relative", mt: 2, borderBottom: 1, borderTop: 1, borderColor: "divider", borderTopStyle: "dashed" }}>
        <Box component="span" sx={{ position: "absolute", top: 2, left: 4, fontSize: 12, color: "text.secondary", pointerEvents: "none" }}>
          {heightInWords(most, measure, currency)}
        </Box>
        <Box
          component="svg"
          role="img"
          aria-label={`${title}: at most ${heightInWords(most, measure, currency)}; the last ${by} ${heightInWords(last.height, measure, currency)}`}
          viewBox={`0 0 ${columns.length} 1`}
          preserveAspectRatio="none"
          onPointerMove={move}
          onPointerLeave={() => point(null)}
          sx={{ display: "block", width: "100%", height: HEIGHT_PX, color: "primary.main" }}
        >
          {columns.map(({ start, height }, index) => (
            <rect
              key={start}
              x={index}
              y={1 - height / most}
              width={FILLED}
              height={height / most}
              fill="currentColor"
              opacity={pointed === null || pointed === index ? 1 : 0.5}
            />
          ))}
        </Box>
      </Box>
      <Box aria-hidden sx={{ display: "flex", justifyContent: "space-between", fontSize: 12, color: "text.secondary", mt: 1 }}>
        <span>{endOf(first, by)}</span>
        <span>{endOf(last, by)}</span>
      </Box>
    </Box>
  );
}

const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });

/** The label at an end of the axis. */
function endOf({ start }: Column, by: TimeBy): string {
  return by === "day" ? `${DAY.format(start)} (UTC)` : exact(new Date(start).toISOString());
}
