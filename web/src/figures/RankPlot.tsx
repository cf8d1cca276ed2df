import { useMemo, useState } from "react";
import { PlotFrame } from "./plot/PlotFrame";
import { Plot } from "./plot/Plot";
import { linesShape } from "./plot/shape";
import { amount, isBytes, rankColumns, type Marks, type RankSeries } from "./series";

/** One quantity of one rank: a line, or one of each GPU. */
export function RankPlot({ series, range, marks }: { series: readonly RankSeries[]; range: readonly [number, number]; marks: Marks }) {
  const [time, setTime] = useState<number | null>(null);
  const columns = useMemo(() => rankColumns(series), [series]);
  const first = series[0];
  if (!first) return null;
  const [times, ...lines] = columns;
  const index = time === null ? times.length - 1 : times.indexOf(time);
  const values = lines.map((line, column) => {
    const value = line[index];
    const gpu = series[column]?.gpu;
    return value === null || value === undefined
      ? ""
      : `${series.length > 1 ? `GPU ${gpu}: ` : ""}${amount(value, first.unit)}`;
  });
  const words = values.filter(Boolean).join(", ");
  return (
    <PlotFrame name={first.name} description={first.description} words={words}>
      <Plot
        columns={columns}
        shape={linesShape(series.length)}
        range={range}
        marks={marks}
        label={`${first.name}: ${words}`}
        format={(value) => amount(value, first.unit)}
        isBytes={isBytes(first.unit)}
        onPoint={setTime}
      />
    </PlotFrame>
  );
}
