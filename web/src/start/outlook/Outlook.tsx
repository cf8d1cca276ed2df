import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { membersOn } from "../../cluster/names";
import type { Schemas } from "../../api/client";
import { exact } from "../../words/times/times";
import { sentence } from "../../words/sentence";
import { notesOf } from "../notes";

type WhatIf = Schemas["WhatIf"];

/** The server's answer to a dry run: whether the run would start now, and what policy changes in it. `isOld`: the form has changed since. */
export function Outlook({ found, isOld }: { found: WhatIf; isOld: boolean }) {
  return (
    <Box role="status" aria-busy={isOld}>
      <Typography color={isOld ? "textSecondary" : "textPrimary"} sx={{ fontWeight: 600 }}>
        {found.starts ? `Starts at once on ${membersOn(found.nodes)}` : "Waits at first"}
      </Typography>
      {!found.starts && (
        <>
          <Typography sx={{ overflowWrap: "anywhere" }}>{sentence(found.start.message)}</Typography>
          {found.start.expectedAt && <Typography>Expected to start: {exact(found.start.expectedAt)}.</Typography>}
          {(found.start.sooner ?? []).map((way) => (
            <Typography key={way} color="textSecondary">
              It would start now with <code>{way}</code>.
            </Typography>
          ))}
        </>
      )}
      {notesOf(found.findings).map((note) => (
        <Typography key={note} color="textSecondary" sx={{ mt: 1 }}>
          {note}
        </Typography>
      ))}
    </Box>
  );
}
