import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useMemo, useState } from "react";
import { CurveControls } from "../figures/CurveControls";
import { STEP } from "../figures/curves";
import { lasted } from "../figures/plot/axes";
import { LineNames } from "../figures/plot/LineNames";
import { Plot } from "../figures/plot/Plot";
import { PlotFrame } from "../figures/plot/PlotFrame";
import { amount, isOfTraining } from "../figures/series";
import { PLOTS } from "../figures/TrainingCurves";
import { saveFile } from "../common/saveFile";
import { curvesCsv, linesOf, placesOf, scalesOf, valueAt, type ComparedFigure, type Lines } from "./lines";
import type { Comparison, CompareView } from "./view";

interface Properties {
  comparison: Comparison;
  names: readonly string[];
  view: CompareView;
  change: (part: Partial<CompareView>) => void;
}

/** The curves of all runs: what their programs wrote, and the use of GPUs; of processors if no run has GPUs. */
export function ComparedCurves({ comparison, names, view, change }: Properties) {
  const figures = comparison.figures ?? [];
  const scales = useMemo(() => scalesOf(comparison), [comparison]);
  const isByStep = view.x === "step" && scales.some(({ steps }) => steps);
  const x = isByStep ? "step" : "time";
  const { y, smooth } = view;
  const drawn = useMemo(() => {
    const used = figures.some(({ name }) => name === "gpu.used") ? "gpu.used" : "cpu.used";
    const shown = figures.filter((figure) => (isOfTraining(figure) ? x === "time" || figure.name !== STEP : figure.name === used));
    return shown.map((figure) => ({ figure, lines: linesOf(figure, scales, { x, y: isOfTraining(figure) ? y : "linear", smooth: isOfTraining(figure) ? smooth : "" }) }));
  }, [comparison, scales, x, y, smooth]);
  const range = useMemo(() => placesOf(drawn.map(({ lines }) => lines)), [drawn]);
  const without = names.filter((_, run) => !scales[run]?.steps);
  const words = [
    view.x === "step" && !isByStep && "No program wrote a figure named step, so the curves are over time.",
    isByStep && "Each point stands at the median step of all ranks; earlier attempts are faint.",
    isByStep && without.length > 0 && `${without.join(", ")} wrote no figure named step, and ${without.length > 1 ? "have" : "has"} no lines here.`,
    x === "time" && "Time since each run's start.",
    smooth && "Faint lines are the medians as they were measured, the others their means.",
  ].filter(Boolean);
  return (
    <Box component="section" aria-label="Curves">
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 2 }}>
        <Typography variant="h2" sx={{ flex: "1 1 auto" }}>
          Curves
        </Typography>
        <CurveControls view={view} change={change} timeWord="Time since start" />
      </Box>
      {!drawn.length && <Typography color="textSecondary">Nothing was measured of these runs. The first figures appear two minutes after the start of a run; a program writes its own to $KAJI_METRICS.</Typography>}
      {drawn.length > 0 && (
        <>
          <Typography color="textSecondary" sx={{ mb: 3 }}>
            Median of all ranks. {words.join(" ")}
          </Typography>
          <LineNames names={names} label="Runs by colour" />
          <Box sx={PLOTS}>
            {drawn.map(({ figure, lines }) => (
              <ComparedPlot key={figure.name} figure={figure} lines={lines} names={names} axis={isByStep ? "step" : "duration"} range={range ?? undefined} />
            ))}
          </Box>
          <Button size="small" variant="outlined" sx={{ mt: 3 }} onClick={() => saveFile("curves.csv", curvesCsv(comparison, scales, { x, y, smooth }))}>
            Save curves as CSV
          </Button>
        </>
      )}
    </Box>
  );
}

interface PlotProperties {
  figure: ComparedFigure;
  lines: Lines;
  names: readonly string[];
  axis: "duration" | "step";
  range: readonly [number, number] | undefined;
}

function ComparedPlot({ figure: { name, unit, description }, lines, names, axis, range }: PlotProperties) {
  const [place, setPlace] = useState<number | null>(null);
  const values = names.flatMap((each, run) => {
    const value = valueAt(lines.placed[run] ?? [], place);
    return value === null ? [] : [`${each} ${amount(value, unit)}`];
  });
  const where = place === null ? "" : axis === "step" ? `step ${amount(place, "count")}: ` : `after ${lasted(place)}: `;
  const words = values.length ? `${where}${values.join(", ")}` : "";
  return (
    <PlotFrame name={name} description={description} words={words} notes={lines.notes}>
      <Plot
        columns={lines.columns}
        shape={lines.shape}
        axis={axis}
        isLog={lines.isLog}
        range={range}
        label={`${name}: ${words}`}
        format={(value) => amount(value, unit)}
        onPoint={setPlace}
      />
    </PlotFrame>
  );
}
