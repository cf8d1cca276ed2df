import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import { SMOOTHINGS, type CurveView, type Smoothing } from "./curves";

const SMOOTHING_WORDS: Record<Smoothing, string> = {
  "": "None",
  "mean-5": "Mean of 5 points",
  "mean-15": "Mean of 15 points",
  "exp-0.6": "Exponential, 0.6",
  "exp-0.9": "Exponential, 0.9",
};

interface Properties {
  view: CurveView;
  change: (part: Partial<CurveView>) => void;
  /** The word for the axis that is not in steps. */
  timeWord?: string;
}

/** How the curves of a training are drawn: over time or steps, linear or logarithmic, smoothed or not. */
export function CurveControls({ view, change, timeWord = "Time" }: Properties) {
  return (
    <>
      <ToggleButtonGroup size="small" exclusive value={view.x} onChange={(_, x: CurveView["x"] | null) => x && change({ x })} aria-label="Horizontal axis">
        <ToggleButton value="time">{timeWord}</ToggleButton>
        <ToggleButton value="step">Step</ToggleButton>
      </ToggleButtonGroup>
      <ToggleButtonGroup size="small" exclusive value={view.y} onChange={(_, y: CurveView["y"] | null) => y && change({ y })} aria-label="Vertical axis">
        <ToggleButton value="linear">Linear</ToggleButton>
        <ToggleButton value="log">Log</ToggleButton>
      </ToggleButtonGroup>
      <TextField
        select
        size="small"
        label="Smoothing"
        value={view.smooth}
        onChange={(event) => change({ smooth: event.target.value as Smoothing })}
        slotProps={{ inputLabel: { shrink: true }, select: { displayEmpty: true } }}
        sx={{ minWidth: 160 }}
      >
        {SMOOTHINGS.map((value) => (
          <MenuItem key={value} value={value}>
            {SMOOTHING_WORDS[value]}
          </MenuItem>
        ))}
      </TextField>
    </>
  );
}
