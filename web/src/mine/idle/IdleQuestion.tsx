import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import TextField from "@mui/material/TextField";
import { useState } from "react";
import { Link } from "react-router";
import { serverNow } from "../../api/clock";
import { Problem } from "../../app/Problem";
import { useIdleAnswer } from "../../run/useIdleAnswer";
import { addressOf } from "../../runs/RunTable";
import { Faint } from "../../common/Part";
import { useNow } from "../../words/times/useNow";
import { chosenTime, costOf, KEEPS, outcomeOf, untilOf, type IdleRun } from "./idle";

/** The question about one run, with its answers: keep it until a time, or park it. */
export function IdleQuestion({ run }: { run: IdleRun }) {
  const now = useNow(30);
  const [chooses, setChooses] = useState(false);
  const [time, setTime] = useState("");
  const answer = useIdleAnswer({ namespace: run.namespace, name: run.run }, { onDone: () => setChooses(false) });
  return (
    <Box component="li" sx={{ borderLeft: 3, borderColor: "warning.main", pl: 3, my: 3 }}>
      <Link to={addressOf({ namespace: run.namespace, name: run.run })}>
        {run.namespace}/{run.run}
      </Link>
      : {run.says}
      <Faint>
        {outcomeOf(run, now)} Idle so far: {costOf(run)}.
      </Faint>
      {answer.error && <Problem error={answer.error} />}
      <Box sx={{ display: "flex", flexWrap: "wrap", gap: 2, mt: 2 }}>
        {KEEPS.map(({ word, hours }) => (
          <Button key={hours} size="small" variant="outlined" disabled={answer.isPending} onClick={() => answer.mutate(untilOf(hours, serverNow()))}>
            {word}
          </Button>
        ))}
        <Button size="small" variant="outlined" disabled={answer.isPending} aria-expanded={chooses} onClick={() => setChooses(!chooses)}>
          Keep until …
        </Button>
        <Button
          size="small"
          variant="outlined"
          color="warning"
          disabled={answer.isPending}
          title="Stop it after a checkpoint; resuming starts it again"
          onClick={() => answer.mutate(null)}
        >
          Park
        </Button>
      </Box>
      {chooses && (
        <Box
          component="form"
          onSubmit={(event) => {
            event.preventDefault();
            answer.mutate(chosenTime(time));
          }}
          sx={{ display: "flex", flexWrap: "wrap", gap: 2, mt: 2 }}
        >
          <TextField
            size="small"
            type="datetime-local"
            label="Until"
            value={time}
            onChange={(event) => setTime(event.target.value)}
            slotProps={{ inputLabel: { shrink: true } }}
          />
          <Button type="submit" size="small" variant="contained" disabled={!chosenTime(time) || answer.isPending}>
            Keep it
          </Button>
        </Box>
      )}
    </Box>
  );
}
