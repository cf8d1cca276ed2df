import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { quote } from "shlex";
import { Link } from "react-router";
import type { Run } from "../../api/client";
import { PanelTitle, SidePanel } from "../../sidepanel/SidePanel";
import { Age } from "../../words/times/Age";
import { bytes } from "../../words/amounts";
import { CopyLine } from "../../common/CopyLine";
import { duration } from "../../words/times/times";
import { TrialState } from "./TrialState";
import { valueWord, whyOf, type Trial } from "./trials";

interface Properties {
  run: Run;
  index: number;
  trial: Trial | undefined;
  /** Its place among the best, from 0; -1 if it has none. */
  place: number;
  of: number;
  close: () => void;
}

/** One member: all of its values, how it ended, and where its log is. */
export function TrialPanel({ run, index, trial, place, of, close }: Properties) {
  const log = `/runs/${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.name)}?rank=${index}`;
  return (
    <SidePanel label={`Member ${index}`} head={<PanelTitle>{`Member ${index}`}</PanelTitle>} close={close}>
      {!trial && <Typography>The sweep has no member with this number.</Typography>}
      {trial && (
        <>
          <Box sx={{ display: "flex", flexWrap: "wrap", gap: 3, my: 2 }}>
            <TrialState state={trial.state} />
            {place >= 0 && <span>{`place ${(place + 1).toLocaleString("en")} of ${of.toLocaleString("en")}`}</span>}
          </Box>
          {whyOf(trial) && <Typography sx={{ overflowWrap: "anywhere", mb: 2 }}>{whyOf(trial)}</Typography>}
          <Pairs pairs={[...trial.values].map(([name, value]) => [name, valueWord(value), `${value}`])} />
          {!trial.values.size && trial.state === "Succeeded" && <Typography color="textSecondary">It wrote no result.</Typography>}
          <Box sx={{ my: 3, borderTop: 1, borderColor: "divider" }} />
          <Pairs
            pairs={[
              ["Took", trial.seconds === null ? "" : duration(trial.seconds)],
              ["Started", trial.startedAt ? <Age key="started" time={trial.startedAt} /> : ""],
              ["Ended", trial.endedAt ? <Age key="ended" time={trial.endedAt} /> : ""],
              ["Exit code", trial.exitCode ?? ""],
              ["Restarts", trial.restarts || ""],
              ["Peak memory", trial.peakBytes ? bytes(trial.peakBytes) : ""],
              ["Node", trial.node ?? ""],
            ]}
          />
          {trial.state !== "Waiting" && trial.state !== "NotRun" && (
            <>
              <Box sx={{ my: 3 }}>
                <Link to={log}>Show its log</Link>
              </Box>
              <CopyLine text={`kaji logs -N ${quote(run.namespace)} ${quote(run.name)} --index ${index}`} />
            </>
          )}
        </>
      )}
    </SidePanel>
  );
}

function Pairs({ pairs }: { pairs: (readonly [string, React.ReactNode, string?])[] }) {
  return (
    <Box component="dl" sx={{ display: "grid", gridTemplateColumns: "minmax(0, auto) minmax(0, 1fr)", columnGap: 4, rowGap: 1, m: 0 }}>
      {pairs
        .filter(([, value]) => value !== "")
        .map(([name, value, whole]) => (
          <Box key={name} sx={{ display: "contents" }}>
            <Box component="dt" sx={{ color: "text.secondary", overflowWrap: "anywhere" }}>
              {name}
            </Box>
            <Box component="dd" title={whole} sx={{ m: 0, overflowWrap: "anywhere" }}>
              {value}
            </Box>
          </Box>
        ))}
    </Box>
  );
}
