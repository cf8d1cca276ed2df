import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { Link } from "react-router";
import { Problem } from "../app/Problem";
import { PanelTitle, SidePanel } from "../sidepanel/SidePanel";
import { NodeNames } from "../cluster/NodeNames";
import { useExplanation } from "../cluster/room/useRoom";
import { CopyLine } from "../common/CopyLine";
import { WaitingWhatIf } from "./QueueWhatIf";
import { sentence } from "../words/sentence";
import type { QueueRow } from "./useQueue";
import { WhyWaiting } from "./WhyWaiting";
import { endWords, startWords } from "./words";

interface Properties {
  id: string;
  run: QueueRow | undefined;
  now: number;
  /** Called with the bars of alternatives to the run. */
  draw: (rows: readonly QueueRow[]) => void;
  /** The address of another run (`namespace/name`) in the queue. */
  addressOf: (key: string) => string;
  close: () => void;
}

/** One run of the timeline: when it is expected to start or end, what exactly has to happen before, and who holds that. */
export function RunPanel({ id, run, now, draw, addressOf, close }: Properties) {
  const isWaiting = run?.state === "waiting";
  const found = useExplanation(isWaiting ? id : "");
  const [namespace = "", name = ""] = id.split("/");
  const page = `/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  return (
    <SidePanel label={`Run ${id}`} head={<PanelTitle><Link to={page}>{id}</Link></PanelTitle>} close={close}>
      {!run && <Typography sx={{ my: 2 }}>It neither waits nor runs any more.</Typography>}
      {run && (
        <Typography sx={{ my: 2 }}>
          {run.owner && `Owner: ${run.owner}. `}
          {sentence(isWaiting ? startWords(run, now) : endWords(run, now))}
        </Typography>
      )}
      {run?.state === "running" && <Typography sx={{ overflowWrap: "anywhere" }}>On <NodeNames list={run.nodes} /></Typography>}
      {isWaiting && found.error && <Problem error={found.error} retry={() => void found.refetch()} />}
      {isWaiting && !found.data && !found.error && <Skeleton variant="rectangular" height={160} />}
      {isWaiting && found.data && <WhyWaiting found={found.data} id={id} now={now} addressOf={addressOf} />}
      {isWaiting && <WaitingWhatIf id={id} now={now} draw={draw} />}
      <Box sx={{ mt: 3 }}>
        <CopyLine text={isWaiting ? `kaji explain -N ${namespace} ${name}` : `kaji describe -N ${namespace} ${name}`} />
      </Box>
    </SidePanel>
  );
}
