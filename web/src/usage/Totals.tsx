import Box from "@mui/material/Box";
import { hours, measuresOf, money, type Usage } from "./usage";

/** The total usage, as large numbers. */
export function Totals({ usage }: { usage: Usage }) {
  const { total, currency } = usage;
  const measures = measuresOf(usage);
  const shown: [string, string][] = [
    ...(measures.includes("gpu") ? [["GPU-hours", hours(total.gpuSeconds)] as [string, string]] : []),
    ["Core-hours", hours(total.coreSeconds)],
    ["Memory, GiB-hours", hours(total.memoryGibSeconds)],
    ...(measures.includes("cost") ? [["Cost", money(total.cost, currency)] as [string, string]] : []),
  ];
  return (
    <Box component="dl" sx={{ display: "flex", flexWrap: "wrap", columnGap: 10, rowGap: 3, my: 4 }}>
      {shown.map(([word, amount]) => (
        <Box key={word} sx={{ display: "flex", flexDirection: "column-reverse" }}>
          <Box component="dt" sx={{ color: "text.secondary", fontSize: 12.5 }}>
            {word}
          </Box>
          <Box component="dd" sx={{ m: 0, fontSize: 28, lineHeight: 1.2, fontWeight: 600 }}>
            {amount}
          </Box>
        </Box>
      ))}
    </Box>
  );
}
