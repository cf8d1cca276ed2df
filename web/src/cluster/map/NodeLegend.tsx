import Box from "@mui/material/Box";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import type { Legend } from "../colours";
import { count as numbered } from "../../words/amounts";
import { KindMark } from "./KindMark";

/** The legend: what the cells mean, with counts. A click shows only these nodes. */
export function NodeLegend({ legend, chosen, choose }: { legend: Legend; chosen: string[]; choose: (kinds: string[]) => void }) {
  return (
    <ToggleButtonGroup size="small" value={chosen} onChange={(_, kinds: string[]) => choose(kinds)} aria-label="Legend" sx={{ mb: 3, flexWrap: "wrap" }}>
      {legend.kinds.map(({ kind, count }) => (
        <ToggleButton key={kind.key} value={kind.key} sx={{ gap: 2, maxWidth: 280, color: "text.primary" }}>
          <KindMark kind={kind} />
          <Box component="span" sx={{ overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" }} title={kind.word}>
            {kind.word}
          </Box>
          {numbered(count)}
        </ToggleButton>
      ))}
    </ToggleButtonGroup>
  );
}
