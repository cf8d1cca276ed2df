import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { partsOf, type GpuType } from "./board";

/** The GPUs of one type: how many are at work, idle, free, and take no work, in words and as a bar. */
export function TypeBar({ found }: { found: GpuType }) {
  const parts = partsOf(found);
  return (
    <Box component="section" aria-label={found.type} sx={{ mb: 6 }}>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "baseline", columnGap: 4, mb: 1 }}>
        <Typography component="h2" sx={{ fontSize: 24, fontWeight: 600 }}>
          {found.type}
        </Typography>
        {parts.map(({ word, gpus, colour }) => (
          <Typography key={word} sx={{ fontSize: 18, display: "inline-flex", alignItems: "center", gap: 2 }}>
            <Box component="span" aria-hidden sx={{ width: 12, height: 12, borderRadius: "2px", bgcolor: colour }} />
            {gpus.toLocaleString()} {word}
          </Typography>
        ))}
        <Typography color="textSecondary" sx={{ fontSize: 18 }}>
          of {found.total.toLocaleString()}
        </Typography>
      </Box>
      <Box aria-hidden sx={{ display: "flex", height: 28, borderRadius: 1, overflow: "hidden", gap: "2px" }}>
        {parts.map(({ word, gpus, colour }) => (
          <Box key={word} sx={{ flex: `${gpus} 0 4px`, bgcolor: colour }} />
        ))}
      </Box>
    </Box>
  );
}
