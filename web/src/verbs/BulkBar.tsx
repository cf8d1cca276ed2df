import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useEffect, useRef, useState } from "react";
import { Link } from "react-router";
import { compareAddress, MOST_RUNS } from "../compare/address";
import { LossDialog } from "./LossDialog";
import { perform } from "./perform";
import { useMayChange } from "./useMayChange";
import type { Row } from "../runs/data/rows";
import { applies, BUTTONS, ends, failures, performEach, refused, resumable, summary, VERB_WORDS, type Outcome, type Verb } from "./verbs";

interface Progress {
  verb: Verb;
  all: number;
  outcomes: Outcome[];
}

interface Properties {
  /** The selected runs. */
  runs: readonly Row[];
  /** All runs as they are now, for the way back after a stop. */
  all: readonly Row[];
  clear: () => void;
}

/** The actions that the person may perform on the selected runs. Each run that could not be changed is reported, and runs that were stopped can be resumed together. */
export function BulkBar({ runs, all, clear }: Properties) {
  const mayChange = useMayChange();
  const concernedBy = (verb: Verb) => runs.filter((run) => applies(verb, run) && mayChange(run.namespace));
  const [asking, setAsking] = useState<Verb | null>(null);
  const [progress, setProgress] = useState<Progress | null>(null);
  const isBusy = progress !== null && progress.outcomes.length < progress.all;
  const start = async (verb: Verb, concerned: readonly Row[] = concernedBy(verb)) => {
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
          {BUTTONS.map((verb) => {
            const count = concernedBy(verb).length;
            if (!count) return null;
            return (
              <Button
                key={verb}
                size="small"
                variant="outlined"
                color={verb === "delete" ? "error" : "primary"}
                disabled={isBusy}
                onClick={() => (ends(verb) ? setAsking(verb) : void start(verb))}
              >
                {VERB_WORDS[verb].ask} {count}
              </Button>
            );
          })}
          {runs.length > 1 && <CompareButton runs={runs} />}
          <Button size="small" onClick={clear}>
            Select none
          </Button>
        </Box>
      )}
      {progress && (
        <Outcomes
          progress={progress}
          isBusy={isBusy}
          resumable={isBusy ? NONE : resumable(progress.verb, progress.outcomes, all)}
          resume={(stopped) => void start("resume", stopped)}
          again={isBusy ? NONE : refused(progress.verb, progress.outcomes, all)}
          tryAgain={(left) => void start(progress.verb, left)}
          close={() => setProgress(null)}
        />
      )}
      {asking && (
        <LossDialog
          verb={asking}
          runs={concernedBy(asking)}
          close={() => setAsking(null)}
          confirm={() => void start(asking)}
          {...(asking === "stop" && { kill: () => void start("kill") })}
        />
      )}
    </Box>
  );
}

/** Leads to the comparison of the selected runs, if they are few enough for one plot. */
function CompareButton({ runs }: { runs: readonly Row[] }) {
  const words = `Compare ${runs.length}`;
  if (runs.length <= MOST_RUNS) {
    return (
      <Button size="small" variant="outlined" component={Link} to={compareAddress(runs)}>
        {words}
      </Button>
    );
  }
  return <Typography color="textSecondary">At most {MOST_RUNS} runs can be compared.</Typography>;
}

const NONE: readonly Row[] = [];

interface OutcomesProperties {
  progress: Progress;
  isBusy: boolean;
  /** Runs that were stopped and can be resumed. */
  resumable: readonly Row[];
  resume: (runs: readonly Row[]) => void;
  /** Runs that could not be changed, and may be tried again. */
  again: readonly Row[];
  tryAgain: (runs: readonly Row[]) => void;
  close: () => void;
}

function Outcomes({ progress, isBusy, resumable, resume, again, tryAgain, close }: OutcomesProperties) {
  const { verb, all, outcomes } = progress;
  const told = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // The buttons that had the focus are gone.
    if (!isBusy && document.activeElement === document.body) told.current?.focus({ preventScroll: true });
  }, [isBusy]);
  const failed = failures(outcomes);
  if (isBusy) return <Alert severity="info" role="status">{`${VERB_WORDS[verb].doing} ${outcomes.length} of ${all} …`}</Alert>;
  return (
    <Alert ref={told} tabIndex={-1} severity={failed.length ? "error" : "success"} role="status" onClose={close}>
      {summary(verb, outcomes)}
      {resumable.length > 0 && (
        <Button size="small" onClick={() => resume(resumable)} sx={{ ml: 2, my: -1 }}>
          Undo: resume {resumable.length}
        </Button>
      )}
      {again.length > 0 && (
        <Button size="small" color="inherit" onClick={() => tryAgain(again)} sx={{ ml: 2, my: -1 }}>
          Try again: {VERB_WORDS[verb].ask.toLowerCase()} {again.length}
        </Button>
      )}
      {failed.map(({ names, why }) => (
        <div key={why}>
          <bdi>{names}</bdi>: {why}
        </div>
      ))}
    </Alert>
  );
}
