import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { Link } from "react-router";
import { useView } from "../address/useAddress";
import { Problem } from "../app/Problem";
import { CopyLine } from "../common/CopyLine";
import { sentence } from "../words/sentence";
import { Since } from "../words/times/Since";
import { AddRun } from "./AddRun";
import { MOST_RUNS } from "./address";
import { ComparedCurves } from "./ComparedCurves";
import { ComparedRuns } from "./ComparedRuns";
import { Differences } from "./Differences";
import { useComparison } from "./useComparison";
import { commandsOf, compareParametersOf, compareViewOf, namesOf, type ComparedRun, type CompareView, type Comparison } from "./view";

/** Two to four runs beside each other: what differs, and their curves. The address holds the choice. */
export function ComparePage() {
  const [view, change] = useView(compareViewOf, compareParametersOf);
  const comparison = useComparison(view.runs);
  const takeOut = (run: string) => change({ runs: view.runs.filter((each) => each !== run) });
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Typography variant="h1" sx={{ flex: "1 1 auto" }}>
          Compare runs
        </Typography>
        <Since currentAt={comparison.dataUpdatedAt} error={comparison.error} />
        {view.runs.length < MOST_RUNS && <AddRun key={view.runs.length} known={view.runs} add={(run) => change({ runs: [...view.runs, run] })} />}
      </Box>
      {view.runs.length < 2 && <TooFew runs={view.runs} takeOut={takeOut} />}
      {view.runs.length > 1 && comparison.error && !comparison.data && <Problem error={comparison.error} retry={() => void comparison.refetch()} />}
      {view.runs.length > 1 && comparison.isPending && !comparison.error && <Skeleton variant="rectangular" height={320} />}
      {view.runs.length > 1 && comparison.data && <Compared comparison={comparison.data} view={view} change={change} takeOut={takeOut} />}
    </>
  );
}

interface Properties {
  comparison: Comparison;
  view: CompareView;
  change: (part: Partial<CompareView>) => void;
  takeOut: (run: string) => void;
}

function Compared({ comparison, view, change, takeOut }: Properties) {
  const { runs, missing } = comparison;
  const names = namesOf(runs);
  return (
    <>
      {missing.map(({ run, message, hint }) => (
        <Alert key={run} severity="warning" variant="outlined" sx={{ mb: 3 }} action={<TakeOut run={run} takeOut={takeOut} />}>
          <bdi>{run}</bdi>: {sentence(message)} {hint && sentence(hint)}
        </Alert>
      ))}
      <ComparedRuns runs={runs} names={names} asked={view.runs} takeOut={takeOut} />
      <Differences comparison={comparison} names={names} all={view.all} change={change} />
      <ComparedCurves comparison={comparison} names={names} view={view} change={change} />
      <Commands runs={runs} names={names} all={view.all} />
    </>
  );
}

/** The commands that show the same in a terminal, and those that ask for the runs. */
function Commands({ runs, names, all }: { runs: readonly ComparedRun[]; names: readonly string[]; all: boolean }) {
  return (
    <Box component="section" aria-label="In a terminal" sx={{ display: "grid", gap: 2, mt: 5 }}>
      <Typography variant="h2">In a terminal</Typography>
      {runs.length > 1 && commandsOf(runs, all).map((line) => <CopyLine key={line} text={line} />)}
      <Typography color="textSecondary">The commands that ask for {names.join(", ")}:</Typography>
      {runs.map(({ uid, commandLine }) => (
        <CopyLine key={uid} text={commandLine} />
      ))}
    </Box>
  );
}

function TooFew({ runs, takeOut }: { runs: readonly string[]; takeOut: (run: string) => void }) {
  return (
    <Box sx={{ maxWidth: 640, display: "grid", gap: 3 }}>
      <Typography>
        {runs.length ? "One run is chosen. Add one to three others above" : "No run is chosen. Add two to four above"}, or select them in the list of runs and press <b>Compare</b>. In a terminal:
      </Typography>
      {runs.map((run) => (
        <Box key={run} sx={{ display: "flex", alignItems: "center", gap: 2, overflowWrap: "anywhere" }}>
          <bdi>{run}</bdi> <TakeOut run={run} takeOut={takeOut} />
        </Box>
      ))}
      <CopyLine text={`kaji compare ${runs[0] ?? "RUN"} RUN`} />
      <Box>
        <Button size="small" variant="outlined" component={Link} to="/runs">
          List of runs
        </Button>
      </Box>
    </Box>
  );
}

function TakeOut({ run, takeOut }: { run: string; takeOut: (run: string) => void }) {
  return (
    <Button size="small" color="inherit" onClick={() => takeOut(run)} aria-label={`Take out ${run}`}>
      Take out
    </Button>
  );
}
