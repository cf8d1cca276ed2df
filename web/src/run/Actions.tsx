import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { compareAddress } from "../compare/address";
import { Problem } from "../app/Problem";
import { ChangeButton } from "../change/ChangeButton";
import { TellButton } from "../notices/TellButton";
import { LossDialog } from "../verbs/LossDialog";
import { perform } from "../verbs/perform";
import { useMayChange, useMayStart } from "../verbs/useMayChange";
import { atWork, ends, VERB_WORDS, type Losing, type Verb } from "../verbs/verbs";
import type { ShownRun } from "./data/findRun";
import { gpusOf, isFinal, phaseOf } from "./data/status";

/** The words of the button that opens a program: its port only if the run has several. */
function programWords(path: string, all: readonly string[]): string {
  return all.length === 1 ? "Open" : `Open ${path.split("/").at(-2) ?? ""}`;
}

/** The actions that the person may perform on a run. `leave` leaves its page once it is deleted. If an action loses something, the page names that and asks first. */
export function Actions({ run, leave }: { run: ShownRun; leave: () => void }) {
  const mayChange = useMayChange()(run.namespace);
  const mayStart = useMayStart();
  const queries = useQueryClient();
  const [asking, setAsking] = useState<Verb | null>(null);
  const action = useMutation({
    mutationFn: (verb: Verb) => perform(verb, run),
    onSuccess: async (_, verb) => {
      if (verb === "delete") leave();
      await queries.invalidateQueries();
    },
  });
  const confirm = (verb: Verb) => {
    setAsking(null);
    action.mutate(verb);
  };
  const losing: Losing = { ...run, phase: phaseOf(run), startedAt: run.status.startedAt ?? "", gpus: gpusOf(run) };
  const asks = (verb: Verb) => verb === "delete" || (ends(verb) && atWork([losing]).length > 0);
  const verbs: Verb[] = run.isRemoved || !mayChange ? [] : isFinal(run) ? ["resume", "delete"] : atWork([losing]).length ? ["stop", "restart", "delete"] : ["stop", "delete"];
  return (
    <>
      {action.error && <Problem error={action.error} />}
      {!run.isRemoved &&
        mayChange &&
        run.programs?.map((path) => (
          <Button
            key={path}
            size="small"
            variant="contained"
            href={path}
            target="_blank"
            rel="noopener"
            disabled={run.deleting}
          >
            {programWords(path, run.programs ?? [])}
          </Button>
        ))}
      {run.spec.type === "notebook" && !run.isRemoved && mayChange && !isFinal(run) && !run.programs?.length && (
        <Typography color="textSecondary" role="status">
          Open appears here once it runs.
        </Typography>
      )}
      {run.spec.array && (
        <Button
          size="small"
          variant="outlined"
          component={Link}
          to={`/sweeps/${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.name)}`}
        >
          Results of the sweep
        </Button>
      )}
      <Button size="small" variant="outlined" component={Link} to={compareAddress([run])}>
        Compare
      </Button>
      {mayStart && (
        <Button
          size="small"
          variant="outlined"
          component={Link}
          to={`/start?from=${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.name)}`}
        >
          Copy and change
        </Button>
      )}
      {mayChange && !run.isRemoved && <ChangeButton run={run} />}
      <TellButton run={run} />
      {verbs.map((verb) => (
        <Button
          key={verb}
          size="small"
          variant="outlined"
          color={verb === "delete" ? "error" : "primary"}
          disabled={action.isPending || run.deleting}
          onClick={() => (asks(verb) ? setAsking(verb) : action.mutate(verb))}
        >
          {VERB_WORDS[verb].ask}
        </Button>
      ))}
      {asking && (
        <LossDialog verb={asking} runs={[losing]} close={() => setAsking(null)} confirm={() => confirm(asking)} {...(asking === "stop" && { kill: () => confirm("kill") })} />
      )}
    </>
  );
}
