import Box from "@mui/material/Box";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useState } from "react";
import { MONOSPACE } from "../app/theme";
import { fitting, type RuleGroup } from "./rules";

/** The rules of the policy in sentences, by subject, each with the field of the file that says so. A text finds rules. */
export function RuleGroups({ groups }: { groups: readonly RuleGroup[] }) {
  const [text, setText] = useState("");
  const shown = fitting(groups, text);
  return (
    <>
      <TextField size="small" value={text} onChange={(event) => setText(event.target.value)} placeholder="Find rules: time limit, GPU …" slotProps={{ htmlInput: { "aria-label": "Find rules", dir: "auto" } }} sx={{ width: { xs: "100%", sm: 320 }, mb: 3 }} />
      {!shown.length && <Typography role="status">No rule has these words. The file may have more.</Typography>}
      <Box sx={{ columnWidth: 480, columnGap: 6, mb: 3 }}>
        {shown.map(({ title, rules }) => (
          <Box key={title} component="section" aria-label={title} sx={{ breakInside: "avoid", pb: 4 }}>
            <Typography variant="h2" gutterBottom>
              {title}
            </Typography>
            <Box component="ul" sx={{ m: 0, pl: 5, display: "grid", gap: 2 }}>
              {rules.map((rule) => (
                <Box component="li" key={`${rule.field} ${rule.text}`} sx={{ overflowWrap: "anywhere" }}>
                  <span dir="auto">{rule.text}</span>{" "}
                  <Box component="code" sx={{ fontFamily: MONOSPACE, fontSize: 12, color: "text.secondary", whiteSpace: "nowrap" }}>
                    {rule.field}
                  </Box>
                </Box>
              ))}
            </Box>
          </Box>
        ))}
      </Box>
    </>
  );
}
