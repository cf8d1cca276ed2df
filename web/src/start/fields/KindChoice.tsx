import Box from "@mui/material/Box";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import type { Kind } from "../form";

const WORDS: Record<Kind, { word: string; meaning: string }> = {
  run: { word: "Run", meaning: "One program. With several members, it is one training on several machines." },
  sweep: { word: "Sweep", meaning: "The same program many times. Each member finds its own number in KAJI_ARRAY_INDEX, and chooses its parameters by it." },
  notebook: { word: "Notebook", meaning: "JupyterLab, which opens in your browser. Its files are kept when it ends." },
};

/** The choice of what the form starts, with a sentence about it. */
export function KindChoice({ kind, choose }: { kind: Kind; choose: (kind: Kind) => void }) {
  return (
    <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", columnGap: 4, rowGap: 2 }}>
      <ToggleButtonGroup size="small" exclusive value={kind} onChange={(_, chosen: Kind | null) => chosen && choose(chosen)} aria-label="What to start">
        {Object.entries(WORDS).map(([value, { word }]) => (
          <ToggleButton key={value} value={value} sx={{ px: 4 }}>
            {word}
          </ToggleButton>
        ))}
      </ToggleButtonGroup>
      <Typography color="textSecondary" sx={{ flex: "1 1 280px" }}>
        {WORDS[kind].meaning}
      </Typography>
    </Box>
  );
}
