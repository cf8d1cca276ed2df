import Box from "@mui/material/Box";
import { useMemo, useState } from "react";
import { LineNames } from "../../figures/plot/LineNames";
import { Plot } from "../../figures/plot/Plot";
import { PlotFrame } from "../../figures/plot/PlotFrame";
import { linesShape } from "../../figures/plot/shape";
import { bytes } from "../../words/amounts";
import { exact } from "../../words/times/times";
import { speedColumns, type Direction, type TrafficHistory } from "./past";

const PLOTS: readonly (readonly [Direction, string, string])[] = [
  ["sent", "Sent", "Average speed of what Pods and nodes sent, by class of the addresses at the other end"],
  ["received", "Received", "Average speed of what they received, by class of the addresses at the other end"],
];

/** Traffic sent and received over time, with one line for each class of addresses. */
export function SpeedPlots({ past, classes }: { past: TrafficHistory; classes: readonly string[] }) {
  return (
    <>
      <LineNames names={classes} label="Classes of addresses" />
      <Box sx={{ display: "grid", gridTemplateColumns: "repeat(auto-fit, minmax(min(100%, 480px), 1fr))", gap: 5, mb: 3 }}>
        {PLOTS.map(([direction, word, description]) => (
          <SpeedPlot key={direction} past={past} classes={classes} direction={direction} word={word} description={description} />
        ))}
      </Box>
    </>
  );
}

interface Properties {
  past: TrafficHistory;
  classes: readonly string[];
  direction: Direction;
  word: string;
  description: string;
}

function SpeedPlot({ past, classes, direction, word, description }: Properties) {
  const [time, setTime] = useState<number | null>(null);
  const columns = useMemo(() => speedColumns(past, classes, direction), [past, classes, direction]);
  const at = time === null ? (columns[1]?.findLastIndex((value) => value !== null) ?? -1) : columns[0].indexOf(time);
  const words = classes
    .map((name, index) => {
      const value = columns[index + 1]?.[at];
      return typeof value === "number" ? `${name} ${bytes(value)}/s` : "";
    })
    .filter(Boolean)
    .join(", ");
  const moment = past.points[at]?.at;
  return (
    <PlotFrame name={word} description={description} words={words || "not recorded"} title={moment ? exact(moment) : ""}>
      <Plot columns={columns} shape={linesShape(classes.length)} label={`${word}: ${words || "not recorded"}`} format={(value) => `${bytes(value)}/s`} isBytes onPoint={setTime} />
    </PlotFrame>
  );
}
