import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useState, type RefObject } from "react";
import type { Run } from "../api/client";
import { useRoomBelow } from "../sidepanel/scrolling";
import { membersOf } from "../run/data/status";
import { Connect } from "./Connect";
import { useShell } from "./useShell";

/** Room for the edge of the page. */
const BELOW_PX = 32;

interface Properties {
  run: Run;
  rank: number;
  chooseRank: (rank: number) => void;
}

/** A shell in a member of the run. */
export function TerminalPanel({ run, rank, chooseRank }: Properties) {
  const [tries, setTries] = useState(0);
  return (
    <>
      {membersOf(run).total > 1 && (
        <TextField
          size="small"
          label="Rank"
          type="number"
          value={rank}
          onChange={(event) => chooseRank(Math.max(0, Number(event.target.value) || 0))}
          sx={{ width: 96, mb: 3 }}
        />
      )}
      <Connect run={run} rank={rank} />
      <Shell key={`${rank} ${tries}`} run={run} rank={rank} again={() => setTries(tries + 1)} />
    </>
  );
}

/** Return a function that moves the focus to a button if it is in the terminal, which takes all keys. */
function takeFocusFrom(terminal: RefObject<HTMLElement | null>) {
  return (button: HTMLElement | null) => {
    if (terminal.current?.contains(document.activeElement)) button?.focus();
  };
}

function Shell({ run, rank, again }: { run: Run; rank: number; again: () => void }) {
  const { element, waiting, ended } = useShell(run, rank);
  const room = useRoomBelow(element, BELOW_PX);
  return (
    <>
      {waiting && (
        <Typography role="status" sx={{ mb: 3 }}>
          {waiting}. The terminal opens as soon as it can.
        </Typography>
      )}
      {ended && (
        <Box role="alert" sx={{ display: "flex", alignItems: "center", gap: 3, mb: 3 }}>
          <Typography>{ended}</Typography>
          <Button ref={takeFocusFrom(element)} size="small" variant="outlined" onClick={again}>
            Open a new one
          </Button>
        </Box>
      )}
      <Box
        ref={element}
        aria-label={`Terminal of rank ${rank}`}
        sx={{ height: `max(240px, ${room})`, bgcolor: "#000", borderRadius: 1, p: 2, overflow: "hidden" }}
      />
    </>
  );
}
