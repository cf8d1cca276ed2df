import { useMemo, useState } from "react";
import { exact } from "../words/times";
import { PlotFrame } from "./PlotFrame";
import { Plot } from "./Plot";
import { amount, bandColumns, isBytes, pointAt, type BandPoint, type BandSeries, type Marks } from "./series";

interface Properties {
  series: BandSeries;
  intervalSeconds: number;
  /** The time axis and the marks that all plots share. */
  range?: readonly [number, number];
  marks?: Marks;
  /** Called with the rank of an extreme that was clicked. */
  chooseRank: (rank: number) => void;
}

/** One quantity over all ranks: the median, and the ranges in which most and all ranks are. */
export function BandPlot({ series, intervalSeconds, range, marks, chooseRank }: Properties) {
  const { points, unit, name, description } = series;
  const [time, setTime] = useState<number | null>(null);
  const columns = useMemo(() => bandColumns(points, intervalSeconds), [points, intervalSeconds]);
  const shown = (time !== null && pointAt(points, time)) || points.at(-1);
  const words = shown ? wordsOf(shown, unit) : "";
  return (
    <PlotFrame name={name} description={description} words={words} title={shown ? exact(shown.at) : ""}>
      <Plot
        columns={columns}
        isBand
        range={range}
        marks={marks}
        label={`${name}: ${words}`}
        format={(value) => amount(value, unit)}
        isBytes={isBytes(unit)}
        onPoint={setTime}
        onClick={(at, isAbove) => {
          const point = pointAt(points, at);
          if (point) chooseRank((isAbove ? point.max : point.min).rank);
        }}
      />
    </PlotFrame>
  );
}

function wordsOf({ min, p50, max, count }: BandPoint, unit: string): string {
  const of = ({ rank, gpu }: BandPoint["min"]) =>
    gpu === null || gpu === undefined ? `rank ${rank}` : `rank ${rank}, GPU ${gpu}`;
  if (count <= 1 || min.value === max.value) return amount(p50, unit);
  return `median ${amount(p50, unit)}, ${amount(min.value, unit)} (${of(min)}) to ${amount(max.value, unit)} (${of(max)})`;
}
