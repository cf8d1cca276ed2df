import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import { MEASURES, measuresOf, type Measure, type Usage } from "./usage";

interface Properties {
  usage: Usage;
  measure: Measure;
  choose: (measure: Measure) => void;
}

/** The choice of what columns and bars show, if there is more than one measure. */
export function MeasureChoice({ usage, measure, choose }: Properties) {
  const known = measuresOf(usage);
  if (known.length < 2) return null;
  return (
    <ToggleButtonGroup
      size="small"
      exclusive
      value={measure}
      onChange={(_, chosen: Measure | null) => chosen && choose(chosen)}
      aria-label="What the bars show"
      sx={{ mb: 3 }}
    >
      {known.map((each) => (
        <ToggleButton key={each} value={each}>
          {MEASURES[each].word}
        </ToggleButton>
      ))}
    </ToggleButtonGroup>
  );
}
