import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { useMemo } from "react";
import { BandPlot } from "./BandPlot";
import { CurveControls } from "./CurveControls";
import { byStep, STEP, stepsOf, type CurveView } from "./curves";
import { isOfTraining, type BandSeries, type Marks } from "./series";

/** Plots beside each other, as many as the window has room for. */
export const PLOTS = { display: "grid", gridTemplateColumns: "repeat(auto-fill, minmax(min(100%, 480px), 1fr))", gap: 5 };

interface Properties {
  /** All series of the run; those that its program wrote are drawn. */
  series: readonly BandSeries[];
  intervalSeconds: number;
  /** The time axis and the marks that all plots of the page share. */
  range: readonly [number, number];
  marks: Marks;
  view: CurveView;
  change: (part: Partial<CurveView>) => void;
  chooseRank?: (rank: number) => void;
}

/** The curves of a training, and how they are drawn. Nothing if the program wrote no figures. */
export function TrainingCurves({ series, view, change, range, marks, ...plot }: Properties) {
  const steps = useMemo(() => stepsOf(series), [series]);
  const curves = series.filter(isOfTraining);
  const isByStep = view.x === "step" && steps !== null;
  const stepRange = useMemo(() => (isByStep ? rangeOfSteps(curves, steps) : undefined), [series, isByStep]);
  if (!curves.length) return null;
  return (
    <Box component="section" aria-label="Training" sx={{ mb: 5 }}>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <CurveControls view={view} change={change} />
      </Box>
      <Words view={view} hasSteps={steps !== null} attempts={isByStep ? steps.size : 1} />
      <Box sx={PLOTS}>
        {curves
          .filter(({ name }) => !isByStep || name !== STEP)
          .map((each) => (
            <BandPlot key={each.name} {...plot} series={each} view={view} steps={steps} range={isByStep ? stepRange : range} {...(!isByStep && { marks })} />
          ))}
      </Box>
    </Box>
  );
}

/** Return the first and the last step of all curves. */
function rangeOfSteps(curves: readonly BandSeries[], steps: NonNullable<ReturnType<typeof stepsOf>>): [number, number] | undefined {
  const all = curves.filter(({ name }) => name !== STEP).flatMap(({ points }) => [...byStep(points, steps).values()].flatMap((attempt) => [attempt[0]?.[0] ?? Infinity, attempt.at(-1)?.[0] ?? -Infinity]));
  return all.length ? [Math.min(...all), Math.max(...all)] : undefined;
}

/** What the choices mean for these curves, where a person could wonder. */
function Words({ view: { x, smooth }, hasSteps, attempts }: { view: CurveView; hasSteps: boolean; attempts: number }) {
  const words = [
    x === "step" && !hasSteps && "The program wrote no figure named step, so the curves are over time.",
    x === "step" && hasSteps && "Each point stands at the median step of all ranks.",
    attempts > 1 && "The newest attempt is in colour, earlier ones are grey.",
    smooth && "The faint line is the median as it was measured, the other one its mean.",
  ].filter(Boolean);
  return words.length > 0 && <Typography color="textSecondary" sx={{ mb: 3 }}>{words.join(" ")}</Typography>;
}
