import Box from "@mui/material/Box";
import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import { useTheme } from "@mui/material/styles";
import Typography from "@mui/material/Typography";
import { memo, useMemo, useState } from "react";
import { CopyLine } from "../../common/CopyLine";
import { withConditions, type Condition } from "../filter";
import type { Axis } from "./parallel";
import { ParallelPlot } from "./ParallelPlot";
import { rampColour, scaleOf } from "./scales";
import { ScatterPlot } from "./ScatterPlot";
import { numberWord, valueWord, type Order, type Trial, type ValueColumn } from "../trials/trials";
import { axisNames, qualities, type View } from "../view";

const MOST_AXES = 8;
const TOLD = 6;

interface Properties {
  trials: readonly Trial[];
  /** Those that the filter leaves; the others are faint. */
  shown: readonly Trial[];
  columns: readonly ValueColumn[];
  best: readonly Trial[];
  by: string;
  order: Order;
  view: View;
  change: (part: Partial<View>) => void;
}

/** Parameters and results of all members: as parallel coordinates, and one against another. */
export const Plots = memo(function Plots({ trials, shown, columns, best, by, order, view, change }: Properties) {
  const dark = useTheme().palette.mode === "dark";
  const [marked, setMarked] = useState<number | null>(null);
  const drawn = useMemo(() => trials.filter(({ values }) => values.size > 0), [trials]);
  const axes = useMemo(() => axesOf(drawn, axisNames(drawn, columns, by, MOST_AXES)), [drawn, columns, by]);
  const names = useMemo(() => axesOf(drawn, columns.map(({ name }) => name)).map(({ name }) => name), [drawn, columns]);
  const places = useMemo(() => qualities(best, by), [best, by]);
  const kept = useMemo(() => (shown.length === trials.length ? null : new Set(shown.map(({ index }) => index))), [shown, trials]);
  // The worst are drawn first, so that the best lie on top.
  const ordered = useMemo(() => [...drawn].sort((a, b) => (places.get(a.index) ?? -1) - (places.get(b.index) ?? -1)), [drawn, places]);
  const ranked = useMemo(() => [...ordered].reverse(), [ordered]);
  const colourOf = useMemo(() => (trial: Trial) => rampColour(places.get(trial.index) ?? 0, dark), [places, dark]);
  const rankOf = useMemo(() => new Map(best.map(({ index }, rank) => [index, rank + 1])), [best]);
  const told = (trial: Trial) => {
    const rank = rankOf.get(trial.index);
    const counting = trial.values.has(by) ? [[by, trial.values.get(by)] as const] : [];
    const values = [...counting, ...[...trial.values].filter(([name]) => name !== by)].slice(0, TOLD).map(([name, value]) => `${name} ${valueWord(value)}`);
    return [rank ? `place ${rank} of ${best.length}` : trial.state, ...values].join(", ");
  };
  if (!drawn.length) return <NoResults hasEnded={trials.some(({ state }) => state === "Succeeded")} />;
  if (!names.length || axes.length < 2) return null;
  const x = names.includes(view.x) ? view.x : (axes.find(({ name }) => name !== by)?.name ?? names[0] ?? "");
  const y = names.includes(view.y) ? view.y : names.includes(by) ? by : (names.find((name) => name !== x) ?? x);
  const common = { trials: ordered, ranked, kept, colourOf, told, marked, setMarked, selected: view.member, select: (member: number) => change({ member }) };
  const brush = (name: string, conditions: Condition[]) => change({ text: withConditions(view.text, name, conditions) });
  return (
    <Box sx={{ display: "grid", gridTemplateColumns: { xs: "minmax(0, 1fr)", xl: view.member === null ? "minmax(0, 3fr) minmax(0, 2fr)" : "minmax(0, 1fr)" }, gap: 4 }}>
      <Box component="section" aria-label="Parallel coordinates" sx={{ minWidth: 0 }}>
        <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", columnGap: 4, minHeight: 40, color: "text.secondary" }}>
          {/* A finger scrolls the plot; it filters with the field above. */}
          <Box component="span" sx={{ "@media (pointer: coarse)": { display: "none" } }}>
            Drag along an axis to filter, click its name to take the filter away.
          </Box>
          {best.length > 1 && <Ramp by={by} best={best} dark={dark} />}
        </Box>
        <ParallelPlot {...common} axes={axes} brush={brush} label={`Parallel coordinates of ${drawn.length} members over ${axes.map(({ name }) => name).join(", ")}. Arrow keys move from the best (${order} ${by}) on, Enter opens a member. The table holds the same.`} />
      </Box>
      <Box component="section" aria-label="Scatter plot" sx={{ minWidth: 0 }}>
        <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 1 }}>
          <Choice label="Across" value={x} names={names} choose={(name) => change({ x: name })} />
          <Choice label="Upwards" value={y} names={names} choose={(name) => change({ y: name })} />
        </Box>
        <ScatterPlot {...common} x={x} y={y} label={`Scatter plot of ${y} against ${x}. Arrow keys move, Enter opens a member. The table holds the same.`} />
      </Box>
    </Box>
  );
});

function axesOf(trials: readonly Trial[], names: readonly string[]): Axis[] {
  return names.flatMap((name) => {
    const scale = scaleOf(trials.map(({ values }) => values.get(name)));
    return scale ? [{ name, scale }] : [];
  });
}

function Choice({ label, value, names, choose }: { label: string; value: string; names: readonly string[]; choose: (name: string) => void }) {
  return (
    <TextField select size="small" label={label} value={value} onChange={(event) => choose(event.target.value)} sx={{ width: { xs: "calc(50% - 6px)", sm: 170 } }}>
      {names.map((name) => (
        <MenuItem key={name} value={name}>
          {name}
        </MenuItem>
      ))}
    </TextField>
  );
}

/** The meaning of the colours. */
function Ramp({ by, best, dark }: { by: string; best: readonly Trial[]; dark: boolean }) {
  const valueOf = (trial: Trial | undefined) => {
    const value = trial?.values.get(by);
    return typeof value === "number" ? numberWord(value) : "";
  };
  const stops = [0, 0.25, 0.5, 0.75, 1].map((at) => rampColour(at, dark)).join(", ");
  return (
    <Box sx={{ display: "flex", alignItems: "center", flexWrap: "wrap", gap: 2, minWidth: 0, overflowWrap: "anywhere" }}>
      <span>{`${by}: worst ${valueOf(best.at(-1))}`}</span>
      <Box sx={{ width: 80, height: 10, borderRadius: 1, flex: "none" }} style={{ background: `linear-gradient(to right, ${stops})` }} />
      <span>{`best ${valueOf(best[0])}`}</span>
    </Box>
  );
}

function NoResults({ hasEnded }: { hasEnded: boolean }) {
  return (
    <Box sx={{ maxWidth: 720 }}>
      <Typography gutterBottom>
        {hasEnded ? "No member has written a result. " : "No member has ended with a result yet. "}
        What a program writes to the file that KAJI_RESULT names, preferably JSON, is compared here:
      </Typography>
      <CopyLine text={'with open(os.environ["KAJI_RESULT"], "w") as file:\n    json.dump({"lr": lr, "loss": loss}, file)'} wraps />
    </Box>
  );
}
