import { useMemo, useState } from "react";
import { exact } from "../words/times/times";
import { curveOf, stepAt, type CurveView, type Steps } from "./curves";
import { PlotFrame } from "./plot/PlotFrame";
import { Plot } from "./plot/Plot";
import { amount, isBytes, seconds, type BandPoint, type BandSeries, type Marks } from "./series";

interface Properties {
  series: BandSeries;
  intervalSeconds: number;
  /** The horizontal axis and the marks that all plots share. */
  range?: readonly [number, number] | undefined;
  marks?: Marks | undefined;
  /** How the curve is drawn; without it as it is, over time. */
  view?: CurveView;
  /** The steps of the run, for a plot over steps. */
  steps?: Steps | null;
  /** Called with the rank of an extreme that was clicked. */
  chooseRank?: (rank: number) => void;
}

const PLAIN: CurveView = { x: "time", y: "linear", smooth: "" };

/** One quantity over all ranks: the median, and the ranges in which most and all ranks are. */
export function BandPlot({ series, intervalSeconds, range, marks, view = PLAIN, steps = null, chooseRank }: Properties) {
  const { points, unit, name, description } = series;
  const [place, setPlace] = useState<number | null>(null);
  const curve = useMemo(() => curveOf(points, view, steps, intervalSeconds), [points, view, steps, intervalSeconds]);
  const isByStep = view.x === "step" && steps !== null;
  const shown = (place !== null && curve.points.get(place)) || points.at(-1);
  const words = shown ? [...(isByStep ? [stepWords(shown, steps, place)] : []), wordsOf(shown, unit)].filter(Boolean).join(": ") : "";
  return (
    <PlotFrame name={name} description={description} words={words} title={shown ? exact(shown.at) : ""} notes={curve.notes}>
      <Plot
        columns={curve.columns}
        shape={curve.shape}
        axis={isByStep ? "step" : "clock"}
        isLog={curve.isLog}
        range={range}
        marks={marks}
        label={`${name}: ${words}`}
        format={(value) => amount(value, unit)}
        isBytes={isBytes(unit)}
        onPoint={setPlace}
        onClick={(at, isAbove) => {
          const point = curve.points.get(at);
          if (point) chooseRank?.((isAbove ? point.max : point.min).rank);
        }}
      />
    </PlotFrame>
  );
}

/** Return the step of a point, and its attempt if the run had several: "step 1,200 of attempt 2". */
function stepWords({ at, attempt }: BandPoint, steps: Steps, place: number | null): string {
  const step = place ?? stepAt(steps, attempt, seconds(at));
  if (step === null) return "";
  return `step ${amount(step, "count")}${steps.size > 1 ? ` of attempt ${attempt}` : ""}`;
}

function wordsOf({ min, p50, max, count }: BandPoint, unit: string): string {
  const of = ({ rank, gpu }: BandPoint["min"]) =>
    gpu === null || gpu === undefined ? `rank ${rank}` : `rank ${rank}, GPU ${gpu}`;
  if (count <= 1 || min.value === max.value) return amount(p50, unit);
  return `median ${amount(p50, unit)}, ${amount(min.value, unit)} (${of(min)}) to ${amount(max.value, unit)} (${of(max)})`;
}
