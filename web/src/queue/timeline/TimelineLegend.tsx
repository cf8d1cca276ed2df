import Box from "@mui/material/Box";
import type { Theme } from "@mui/material/styles";

type Mark = readonly [word: string, sx: object];

const stripes = ({ palette }: Theme) => `repeating-linear-gradient(135deg, ${palette.primary.main} 0 1px, transparent 1px 5px)`;
const MARKS: readonly Mark[] = [
  ["runs", { bgcolor: "primary.main" }],
  ["end uncertain", { background: stripes }],
  ["waits, drawn from its expected start", { border: "1px solid", borderColor: "text.secondary" }],
  ["nodes reserved", { border: "3px solid", borderColor: "text.secondary" }],
];
const TRIAL: Mark = ["what if", { border: "2px dashed", borderColor: "warning.main" }];

/** The meaning of the timeline's bars. */
export function TimelineLegend({ withTrials }: { withTrials: boolean }) {
  return (
    <Box sx={{ display: "flex", flexWrap: "wrap", columnGap: 4, rowGap: 1, mb: 2, color: "text.secondary" }}>
      {[...MARKS, ...(withTrials ? [TRIAL] : [])].map(([word, sx]) => (
        <Box key={word} sx={{ display: "flex", alignItems: "center", gap: 1.5 }}>
          <Box aria-hidden="true" sx={{ width: 20, height: 12, ...sx }} />
          {word}
        </Box>
      ))}
    </Box>
  );
}
