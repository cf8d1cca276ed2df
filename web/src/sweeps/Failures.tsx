import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { useMemo } from "react";
import { Link } from "react-router";
import type { Run } from "../api/client";
import { failuresOf, type Trial } from "./trials/trials";

const SHOWN = 12;

/** Failed members, together by their reason, with links to their logs. */
export function Failures({ trials, run }: { trials: readonly Trial[]; run: Run }) {
  const groups = useMemo(() => failuresOf(trials), [trials]);
  const log = (index: number) => `/runs/${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.name)}?rank=${index}`;
  return (
    <Box component="ul" aria-label="Failures by reason" sx={{ listStyle: "none", m: 0, p: 0 }}>
      {groups.map(({ why, trials: failed }) => (
        <Box component="li" key={why} sx={{ py: 2, borderBottom: 1, borderColor: "divider", overflowWrap: "anywhere" }}>
          <Typography>
            <strong>{failed.length.toLocaleString("en")}</strong> {failed.length === 1 ? "member" : "members"}: {why}
          </Typography>
          <Box sx={{ color: "text.secondary" }}>
            Logs:{" "}
            {failed.slice(0, SHOWN).map(({ index }) => (
              <Link key={index} to={log(index)} style={{ marginRight: 8 }}>
                {index}
              </Link>
            ))}
            {failed.length > SHOWN && `and ${(failed.length - SHOWN).toLocaleString("en")} more, in the table`}
          </Box>
        </Box>
      ))}
      {!groups.length && <Typography color="textSecondary">No failed member fits the filter.</Typography>}
    </Box>
  );
}
