import Box from "@mui/material/Box";
import { exact } from "../../words/times/times";
import { extremesAt, heldWords, wordsAt, type NodeHolder, type NodePlotData } from "./figures";

/** The same as the plots in words, the newest time first. */
export function FigureTable({ plots, holders }: { plots: readonly NodePlotData[]; holders: readonly NodeHolder[] }) {
  const times = [...new Set(plots.flatMap(({ columns: [places, ...values] }) => places.filter((_, index) => typeof values[0]?.[index] === "number")))];
  times.sort((a, b) => b - a);
  return (
    <Box component="details" sx={{ my: 3 }}>
      <summary>As a table</summary>
      <Box tabIndex={0} role="region" aria-label="Table of figures" sx={{ overflow: "auto", maxHeight: 360, mt: 2 }}>
        <Box component="table" sx={{ borderCollapse: "collapse", fontVariantNumeric: "tabular-nums", "& td, & th": { textAlign: "left", verticalAlign: "top", p: 1, pr: 3, minWidth: 96 }, "& tbody th": { fontWeight: 400 } }}>
          <thead>
            <tr>
              <th scope="col">Time</th>
              {plots.map(({ name, title }) => (
                <th key={name} scope="col">
                  {title}
                </th>
              ))}
              <th scope="col">Run</th>
            </tr>
          </thead>
          <tbody>
            {times.map((time) => (
              <tr key={time}>
                <th scope="row">{exact(new Date(time * 1000).toISOString())}</th>
                {plots.map((plot) => (
                  <td key={plot.name}>{[wordsAt, extremesAt].map((words) => words(plot, plot.columns[0].indexOf(time))).filter(Boolean).join(", ")}</td>
                ))}
                <td>{heldWords(holders, time)}</td>
              </tr>
            ))}
          </tbody>
        </Box>
      </Box>
    </Box>
  );
}
