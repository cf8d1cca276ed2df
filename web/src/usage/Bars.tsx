import Box from "@mui/material/Box";
import { amountInWords, amountOf, largestFirst, MEASURES, nameOf, share, type Measure, type Usage } from "./usage";

const SHOWN = 12;

/** The largest parts of the usage as bars, each with its amount and its share in words. */
export function Bars({ usage, measure }: { usage: Usage; measure: Measure }) {
  const largest = largestFirst(usage, measure)
    .filter((row) => amountOf(row, measure) > 0)
    .slice(0, SHOWN);
  const most = Math.max(...largest.map((row) => amountOf(row, measure)), 0);
  return (
    <Box component="ul" aria-label={`${MEASURES[measure].word}, the largest first`} sx={{ listStyle: "none", m: 0, p: 0, mb: 5 }}>
      {largest.map((row) => (
        <Box component="li" key={row.key} sx={{ py: 1 }}>
          <Box sx={{ display: "flex", flexWrap: "wrap", columnGap: 3 }}>
            <Box sx={{ flex: "1 1 auto", minWidth: 0, overflowWrap: "anywhere" }}>
              {nameOf(usage.by, row.key)}
            </Box>
            <Box sx={{ color: "text.secondary" }}>
              {amountInWords(row, measure, usage.currency)}, {share(amountOf(row, measure), amountOf(usage.total, measure))}
            </Box>
          </Box>
          <Box aria-hidden sx={{ height: 8, borderRadius: "2px", bgcolor: "action.hover" }}>
            <Box
              sx={{
                height: 8,
                borderRadius: "2px",
                bgcolor: "primary.main",
                width: `max(2px, ${(100 * amountOf(row, measure)) / most}%)`,
              }}
            />
          </Box>
        </Box>
      ))}
    </Box>
  );
}
