import Box from "@mui/material/Box";
import { useTheme } from "@mui/material/styles";
import { useMemo, useState } from "react";
import { lineColours, Plot } from "../../figures/Plot";
import { PlotFrame } from "../../figures/PlotFrame";
import { bytes } from "../../words/amounts";
import { exact } from "../../words/times";
import { speedColumns, type Direction, type TrafficHistory } from "./past";

const PLOTS: readonly (readonly [Direction, string, string])[] = [
  ["sent", "Sent", "Average speed of what Pods and nodes sent, by class of the addresses at the other end"],
  ["received", "Received", "Average speed of what they received, by class of the addresses at the other end"],
];

/** What was sent and received over time, one line a class of addresses. */
export function SpeedPlots({ past, classes }: { past: TrafficHistory; classes: readonly string[] }) {
  const colours = lineColours(useTheme().palette.mode === "dark");
  return (
    <>
      <Box component="ul" aria-label="Classes of addresses" sx={{ display: "flex", flexWrap: "wrap", gap: 4, listStyle: "none", p: 0, m: 0, mb: 2 }}>
        {classes.map((name, index) => (
          <Box component="li" key={name} sx={{ display: "flex", alignItems: "center", gap: 2, overflowWrap: "anywhere" }}>
            <Box aria-hidden="true" sx={{ width: 16, height: 3, bgcolor: colours[index % colours.length] }} />
            {name}
          </Box>
        ))}
      </Box>
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
      <Plot columns={columns} isBand={false} label={`${word}: ${words || "not recorded"}`} format={(value) => `${bytes(value)}/s`} isBytes onPoint={setTime} />
    </PlotFrame>
  );
}
