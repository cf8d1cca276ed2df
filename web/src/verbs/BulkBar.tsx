import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useState } from "react";
import { LossDialog } from "./LossDialog";
import { perform } from "./perform";
import { useMayChange } from "./useMayChange";
import type { Row } from "../runs/rows";
import { applies, performEach, summary, VERB_WORDS, VERBS, type Outcome, type Verb } from "./verbs";

interface Progress {
  verb: Verb;
  all: number;
  outcomes: Outcome[];
}

/** What the person may do with the selected runs. The outcome is told for each that could not be changed. */
export function BulkBar({ runs, clear }: { runs: readonly Row[]; clear: () => void }) {
  const mayChange = useMayChange();
  const concernedBy = (verb: Verb) => runs.filter((run) => applies(verb, run) && mayChange(run.namespace));
  const [asking, setAsking] = useState<Verb | null>(null);
  const [progress, setProgress] = useState<Progress | null>(null);
  const isBusy = progress !== null && progress.outcomes.length < progress.all;
  const start = async (verb: Verb) => {
    const concerned = concernedBy(verb);
    const outcomes: Outcome[] = [];
    setAsking(null);
    setProgress({ verb, all: concerned.length, outcomes });
    await performEach(concerned, (run) => perform(verb, run), (outcome) => {
      outcomes.push(outcome);
      setProgress({ verb, all: concerned.length, outcomes: [...outcomes] });
    });
    clear();
  };
  if (!runs.length && !progress) return null;
  return (
    <Box sx={{ mb: 3, display: "grid", gap: 2 }}>
      {runs.length > 0 && (
        <Box role="toolbar" aria-label="Selected runs" sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 2 }}>
          <Typography role="status">{runs.length} selected</Typography>
          {VERBS.map((verb) => {
            const count = concernedBy(verb).length;
            if (!count) return null;
            return (
              <Button
                key={verb}
                size="small"
                variant="outlined"
                color={verb === "delete" ? "error" : "primary"}
                disabled={isBusy}
                onClick={() => (verb === "resume" ? void start(verb) : setAsking(verb))}
              >
                {VERB_WORDS[verb].ask} {count}
              </Button>
            );
          })}
          <Button size="small" onClick={clear}>
            Select none
          </Button>
        </Box>
      )}
      {progress && <Outcomes progress={progress} isBusy={isBusy} close={() => setProgress(null)} />}
      {asking && (
        <LossDialog
          verb={asking}
          runs={concernedBy(asking)}
          close={() => setAsking(null)}
          confirm={() => void start(asking)}
        />
      )}
    </Box>
  );
}

function Outcomes({ progress, isBusy, close }: { progress: Progress; isBusy: boolean; close: () => void }) {
  const { verb, all, outcomes } = progress;
  const failed = outcomes.filter(({ error }) => error);
  if (isBusy) return <Alert severity="info" role="status">{`${VERB_WORDS[verb].doing} ${outcomes.length} of ${all} …`}</Alert>;
  return (
    <Alert severity={failed.length ? "error" : "success"} role="status" onClose={close}>
      {summary(verb, outcomes)}
      {failed.map(({ run, error }) => (
        <div key={run.uid}>
          <bdi>{run.name}</bdi>: {error?.message}
        </div>
      ))}
    </Alert>
  );
}
