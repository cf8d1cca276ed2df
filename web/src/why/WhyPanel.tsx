import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import LinearProgress from "@mui/material/LinearProgress";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { Problem } from "../app/Problem";
import type { ShownRun } from "../run/data/findRun";
import { isFinal } from "../run/data/status";
import { Age } from "../words/times/Age";
import { inOwnTime } from "../words/times/times";
import { StackGroup } from "./StackGroup";
import { rangesOf, wordsBeside } from "./stacks";
import { useWhy } from "./useWhy";

interface Properties {
  run: ShownRun;
  /** The attempt whose kept stacks are shown; null: a look now, or the newest ones that were kept if the run has ended. */
  attempt: number | null;
  choose: (attempt: number | null) => void;
}

/** Whether a run is stuck, for which rank the others wait, and where the ranks are in their program. */
export function WhyPanel({ run, attempt: chosen, choose }: Properties) {
  const hasEnded = run.isRemoved || isFinal(run);
  const now = useWhy(run, chosen);
  const attempt = chosen ?? (hasEnded ? (now.data?.keptAttempts?.at(-1) ?? null) : null);
  const why = useWhy(run, attempt); // the same query, unless the run has ended and something was kept
  const found = why.data;
  const isOld = attempt === null && !!found && !hasEnded && found.attempt !== (run.status.attempts ?? 0);
  const kept = found?.keptAttempts ?? [];
  if (hasEnded && attempt === null && found) return <Typography color="textSecondary">{NOTHING_KEPT}</Typography>;
  return (
    <Box sx={{ maxWidth: 960 }}>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", columnGap: 4, rowGap: 2, mb: 3 }}>
        {(kept.length > 0 || attempt !== null) && <Attempts kept={kept} attempt={attempt} canLook={!hasEnded} choose={choose} />}
        {attempt === null && !hasEnded && (
          <Button
            size="small"
            variant="outlined"
            aria-disabled={why.isFetching}
            onClick={() => why.isFetching || void why.refetch()} // a disabled button would lose the keyboard's focus
          >
            Look again
          </Button>
        )}
        {found && (
          <Typography color="textSecondary">
            {attempt === null ? "Looked at" : "Kept"} <Age time={found.at} />
            {found.since && (
              <>
                , last progress <Age time={found.since} />
              </>
            )}
          </Typography>
        )}
      </Box>
      <Box role="status" sx={{ minHeight: 28 }}>
        {why.isFetching && (
          <>
            {attempt !== null ? `Reading the stacks of attempt ${attempt} …` : hasEnded ? "Looking for kept stacks …" : "Looking at its processes … This takes some seconds."}
            <LinearProgress aria-label="Looking" />
          </>
        )}
      </Box>
      {why.error && !why.isFetching && <Problem error={why.error} retry={() => void why.refetch()} />}
      {isOld && !why.isFetching && (
        <Alert severity="info" variant="outlined" sx={{ mb: 3 }}>
          This is about attempt {found.attempt}. Another attempt has begun since: look again.
        </Alert>
      )}
      {found && (
        <>
          <Box aria-live="polite" sx={{ overflowWrap: "anywhere" }}>
            {wordsBeside(found.words, found.groups ?? []).map((sentence, index) => (
              <Typography key={sentence} sx={{ mb: 1, fontWeight: index ? 400 : 600 }}>
                {inOwnTime(sentence)}
              </Typography>
            ))}
            {!!found.late?.length && (
              <Typography sx={{ mb: 1 }}>Late, as others wait for them in a collective operation: rank {rangesOf(found.late)}.</Typography>
            )}
          </Box>
          {!!found.groups?.length && (
            <>
              <Typography variant="h2" sx={{ fontSize: 16, fontWeight: 600, mt: 4, mb: 2 }}>
                Ranks by their place in the program
              </Typography>
              <Box component="ul" sx={{ listStyle: "none", m: 0, p: 0 }}>
                {found.groups.map((group) => (
                  <StackGroup key={`${attempt} ${group.ranks.join()}`} run={run} group={group} late={found.late ?? []} attempt={attempt} at={found.at} />
                ))}
              </Box>
            </>
          )}
        </>
      )}
    </Box>
  );
}

const NOTHING_KEPT = "No stacks were kept of this run. They are kept when an attempt may be stuck, and when a member of a gang fails.";

/** Chooses a look now, or an attempt of which stacks are kept. */
function Attempts({ kept, attempt, canLook, choose }: Pick<Properties, "attempt" | "choose"> & { kept: readonly number[]; canLook: boolean }) {
  const all = [...new Set([...kept, ...(attempt === null ? [] : [attempt])])].sort((one, other) => other - one);
  return (
    <TextField
      select
      size="small"
      label="Stacks"
      value={attempt ?? ""}
      onChange={({ target }) => choose(target.value ? Number(target.value) : null)}
      slotProps={{ select: { native: true }, inputLabel: { shrink: true } }}
    >
      {canLook && <option value="">A look now</option>}
      {all.map((each) => (
        <option key={each} value={each}>
          Kept of attempt {each}
        </option>
      ))}
    </TextField>
  );
}
