import Typography from "@mui/material/Typography";
import { useState } from "react";
import { Plot } from "../../figures/plot/Plot";
import { PlotFrame } from "../../figures/plot/PlotFrame";
import { amount, isBytes, type Marks } from "../../figures/series";
import { exact, HOUR_AND_MINUTE } from "../../words/times/times";
import { extremesAt, heldWords, lastIndex, wordsAt, type NodeHolder, type NodePlotData } from "./figures";

interface Properties {
  plot: NodePlotData;
  /** The time axis that all plots share. */
  range: readonly [number, number];
  marks: Marks;
  holders: readonly NodeHolder[];
  chooseGpu: (gpu: number) => void;
}

/** One quantity of a node: a line, or the median of its GPUs in the range of all of them. A click chooses the GPU of the nearer extreme. */
export function NodePlot({ plot, range, marks, holders, chooseGpu }: Properties) {
  const [time, setTime] = useState<number | null>(null);
  const { title, description, unit, columns, shape, extremes } = plot;
  const pointed = time === null ? -1 : columns[0].indexOf(time);
  const index = pointed < 0 ? lastIndex(plot) : pointed;
  const at = columns[0][index];
  const [words, others] = [wordsAt(plot, index), extremesAt(plot, index)];
  const run = at === undefined ? "" : heldWords(holders, at);
  return (
    <PlotFrame name={title} description={description} words={words} notes={others ? [others] : []} title={at === undefined ? "" : exact(new Date(at * 1000).toISOString())}>
      <Plot
        columns={columns}
        shape={shape}
        range={range}
        marks={marks}
        label={`${title}: ${[words, others, run].filter(Boolean).join(", ")}`}
        format={(value) => amount(value, unit)}
        isBytes={isBytes(unit)}
        onPoint={setTime}
        onClick={(place, isAbove) => {
          const found = extremes.get(place);
          if (found) chooseGpu(found[isAbove ? 1 : 0]);
        }}
      />
      <Typography color="textSecondary" noWrap title={run} sx={{ fontSize: 12.5 }}>
        {at === undefined ? "" : `${HOUR_AND_MINUTE.format(at * 1000)}: ${run}`}
      </Typography>
    </PlotFrame>
  );
}
