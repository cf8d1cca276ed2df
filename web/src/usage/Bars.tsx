import Box from "@mui/material/Box";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import { amountInWords, amountOf, largestFirst, MEASURES, measuresOf, nameOf, share, type Measure, type Usage } from "./usage";

const SHOWN = 12;

interface Properties {
  usage: Usage;
  measure: Measure;
  choose: (measure: Measure) => void;
}

/** The largest parts of the usage as bars, each with its amount and its share in words. */
export function Bars({ usage, measure, choose }: Properties) {
  const known = measuresOf(usage);
  const largest = largestFirst(usage, measure)
    .filter((row) => amountOf(row, measure) > 0)
    .slice(0, SHOWN);
  const most = Math.max(...largest.map((row) => amountOf(row, measure)), 0);
  return (
    <>
      {known.length > 1 && (
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
      )}
      <Box component="ul" aria-label={`${MEASURES[measure].word}, the largest first`} sx={{ listStyle: "none", m: 0, p: 0, mb: 5 }}>
        {largest.map((row) => (
          <Box component="li" key={row.key} sx={{ py: 1 }}>
            <Box sx={{ display: "flex", gap: 3 }}>
              <Box sx={{ flex: 1, minWidth: 0, overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" }} title={nameOf(usage.by, row.key)}>
                {nameOf(usage.by, row.key)}
              </Box>
              <Box sx={{ flex: "none", color: "text.secondary" }}>
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
    </>
  );
}
