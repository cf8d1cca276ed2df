import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Dialog from "@mui/material/Dialog";
import DialogActions from "@mui/material/DialogActions";
import DialogContent from "@mui/material/DialogContent";
import DialogTitle from "@mui/material/DialogTitle";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";
import { useNow } from "../words/times/useNow";
import { atWork, lossOf, performEach, VERB_WORDS, type Losing, type Verb } from "./verbs";

/** Number of runs that are named, and whose last checkpoint is asked for. */
const MOST_NAMED = 20;

interface Properties {
  verb: Verb;
  runs: readonly Losing[];
  close: () => void;
  confirm: () => void;
  /** Kill them instead of stopping them. */
  kill?: () => void;
}

/** Ask before runs are stopped or deleted, and name what will be lost. */
export function LossDialog({ verb, runs, close, confirm, kill }: Properties) {
  const now = useNow(10);
  const losing = atWork(runs);
  const named = losing.slice(0, MOST_NAMED);
  const checkpoints = useQuery({
    queryKey: ["last-checkpoints", named.map(({ uid }) => uid)],
    queryFn: () => lastCheckpoints(named),
  });
  const { ask } = VERB_WORDS[verb];
  const isOne = runs.length === 1;
  const which = isOne && runs[0] ? runs[0].name : `${runs.length} runs`;
  return (
    <Dialog open onClose={close} aria-labelledby="loss-title" fullWidth slotProps={{ paper: { sx: { overflowWrap: "anywhere" } } }}>
      <DialogTitle id="loss-title">
        {ask} <bdi>{which}</bdi>?
      </DialogTitle>
      <DialogContent tabIndex={0}>
        {verb === "delete" && (
          <Typography gutterBottom>
            {isOne ? "It leaves the list, and its log goes with it. History keeps its end; its checkpoint stays." : "They leave the list, and their logs go with them. History keeps their ends; their checkpoints stay."}
          </Typography>
        )}
        {verb === "stop" && <Typography gutterBottom>{isOne ? "It can be resumed: it goes on from its last checkpoint, or begins again if it has none." : "They can be resumed: each goes on from its last checkpoint, or begins again if it has none."}</Typography>}
        {verb === "restart" && <Typography gutterBottom>{isOne ? "It is stopped, and queued again once it has ended. It goes on from its last checkpoint, or begins again if it has none." : "They are stopped, and queued again once they have ended. Each goes on from its last checkpoint, or begins again if it has none."}</Typography>}
        {(verb === "kill" || kill) && <Typography gutterBottom>Kill gives members one second to end, in place of the time that the run allows for a last checkpoint.</Typography>}
        {losing.length > 0 && (
          <>
            <Typography>
              {isOne ? "It is at work; what it did since its last checkpoint is lost:" : `${losing.length === runs.length ? "All" : losing.length} of them ${losing.length === 1 ? "is" : "are"} at work; work since their last checkpoints is lost:`}
            </Typography>
            <Box component="ul" sx={{ my: 2, pl: 5 }}>
              {named.map((run) => (
                <li key={run.uid}>
                  <bdi>{run.name}</bdi>: {lossOf(run, checkpoints.data ?? new Map(), now)}
                </li>
              ))}
            </Box>
            {losing.length > named.length && <Typography>and {losing.length - named.length} more.</Typography>}
          </>
        )}
      </DialogContent>
      <DialogActions>
        <Button onClick={close}>Keep {isOne ? "it" : "them"}</Button>
        {kill && (
          <Button color="error" onClick={kill}>
            Kill {isOne ? "it" : "them"} at once
          </Button>
        )}
        <Button color="error" onClick={confirm} autoFocus>
          <span>
            {ask} <bdi>{which}</bdi>
          </span>
        </Button>
      </DialogActions>
    </Dialog>
  );
}

async function lastCheckpoints(runs: readonly Losing[]): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const ask = async ({ uid, namespace, name }: Losing) => {
    const report = await client.GET("/v1/runs/{namespace}/{name}/report", { params: { path: { namespace, name } } });
    found.set(uid, contentOf(report).checkpoints.lastAt);
  };
  await performEach(runs, ask, () => undefined);
  return found;
}
