/** The figures of a run as a table for other programs: what `kaji metrics -o csv` prints, and what the plots make of it. */
import { meansOf, stepAt, type CurveView, type Steps } from "./curves";
import { isOfTraining, seconds, type BandSeries } from "./series";

const COLUMNS = "name,unit,at,attempt,count,min,min_rank,p10,p50,p90,max,max_rank";

/** Return all bands, with the step of each point if plots are over steps, and its smoothed median if they are smoothed. Other figures than those of the training have neither. */
export function csvOf(series: readonly BandSeries[], { x, smooth }: CurveView, steps: Steps | null): string {
  const isByStep = x === "step" && steps !== null;
  const rows = series.flatMap((each) => {
    const { name, unit, points } = each;
    const isCurve = isOfTraining(each);
    const means = smooth && isCurve ? meansOf(points, smooth) : null;
    return points.map((point) => {
      const { at, attempt, count, min, p10, p50, p90, max } = point;
      const step = isByStep ? [isCurve ? (stepAt(steps, attempt, seconds(at)) ?? "") : ""] : [];
      return [name, unit, at, attempt, count, min.value, min.rank, p10, p50, p90, max.value, max.rank, ...step, ...(smooth ? [means?.get(point) ?? ""] : [])].join(",");
    });
  });
  return [[COLUMNS, ...(isByStep ? ["step"] : []), ...(smooth ? ["smoothed"] : [])].join(","), ...rows, ""].join("\n");
}
