import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { Link } from "react-router";
import type { Schemas } from "../api/client";
import { Problem } from "../app/Problem";
import { useExplanation } from "../cluster/useRoom";
import { Age } from "../words/Age";
import { bytes, cpus } from "../words/amounts";
import { CopyLine } from "../words/CopyLine";
import { Faint, Part } from "../words/Part";
import { WaitingWhatIf } from "./QueueWhatIf";
import { sentence } from "../words/sentence";
import type { QueueRow } from "./useQueue";
import { ahead, endWords, needWords, startWords } from "./words";

type Explanation = Schemas["ExplanationView"];

interface Properties {
  id: string;
  run: QueueRow | undefined;
  now: number;
  /** Called with the bars of alternatives to the run. */
  draw: (rows: readonly QueueRow[]) => void;
  close: () => void;
}

/** One run of the timeline: when it is expected to start or end, what exactly has to happen before, and who holds that. */
export function RunPanel({ id, run, now, draw, close }: Properties) {
  const isWaiting = run?.state === "waiting";
  const found = useExplanation(isWaiting ? id : "");
  const [namespace = "", name = ""] = id.split("/");
  return (
    <Box component="section" aria-label={`Run ${id}`} sx={{ border: 1, borderColor: "divider", borderRadius: 1, p: 4, bgcolor: "background.paper", minWidth: 0 }}>
      <Box sx={{ display: "flex", alignItems: "start", gap: 3 }}>
        <Typography variant="h2" sx={{ flex: 1, overflowWrap: "anywhere" }}>
          <Link to={`/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`}>{id}</Link>
        </Typography>
        <Button size="small" onClick={close}>
          Close
        </Button>
      </Box>
      {!run && <Typography sx={{ my: 2 }}>It neither waits nor runs any more.</Typography>}
      {run && (
        <Typography sx={{ my: 2 }}>
          {run.owner && `Of ${run.owner}. `}
          {sentence(isWaiting ? startWords(run, now) : endWords(run, now))}
        </Typography>
      )}
      {run?.state === "running" && <Typography sx={{ overflowWrap: "anywhere" }}>On {run.nodes}</Typography>}
      {isWaiting && found.error && <Problem error={found.error} retry={() => void found.refetch()} />}
      {isWaiting && !found.data && !found.error && <Skeleton variant="rectangular" height={160} />}
      {isWaiting && found.data && <Why found={found.data} id={id} now={now} />}
      {isWaiting && <WaitingWhatIf id={id} now={now} draw={draw} />}
      <Box sx={{ mt: 3 }}>
        <CopyLine text={isWaiting ? `kaji explain -N ${namespace} ${name}` : `kaji describe -N ${namespace} ${name}`} />
      </Box>
    </Box>
  );
}

function Why({ found, id, now }: { found: Explanation; id: string; now: number }) {
  const { place, toFree, kept, asks = [], sooner = [], behind = [], blocked = [], held = [], controller } = found;
  return (
    <>
      <Typography sx={{ overflowWrap: "anywhere" }}>{found.message}</Typography>
      {controller && <Typography color="warning">{sentence(controller.says)}</Typography>}
      <Part title="What has to happen" empty={needWords(toFree !== undefined, controller !== undefined)}>
        {(toFree ?? []).map((step) => (
          <li key={`${step.kind} ${step.name}`}>
            {stepWords(step)}
            <Faint>
              {[step.owner && `of ${step.owner}`, step.gpus && `${step.gpus} GPUs`, step.until && `expected ${ahead(step.until, now)}`].filter(Boolean).join(", ")}
            </Faint>
          </li>
        ))}
      </Part>
      {!!toFree?.length && <Link to={`/cluster?room=${encodeURIComponent(id)}`}>Show these nodes on the map</Link>}
      {asks.length > 0 && <Part title="It preempts">{asks.map((key) => <li key={key}>{key}</li>)}</Part>}
      {kept && (
        <Part title="Reserved for it">
          <li>{kept.nodes}</li>
        </Part>
      )}
      {behind.length > 0 && <Part title="It would delay">{behind.map((key) => <li key={key}>{key}</li>)}</Part>}
      {held.length > 0 && (
        <Part title="Who holds what it needs">
          {held.map((holder) => (
            <li key={holder.holder}>
              {holder.holder}
              {holder.owner && ` of ${holder.owner}`}
              <Faint>
                {holder.gpus ? `${holder.gpus} GPUs` : `${cpus(holder.cpuMillis)} CPUs, ${bytes(holder.memoryBytes)}`} on {holder.nodes}, since <Age time={holder.since} />
                {holder.until && `, expected until ${ahead(holder.until, now)}`}
              </Faint>
            </li>
          ))}
        </Part>
      )}
      {blocked.length > 0 && (
        <Part title="Nodes that take no work">
          {blocked.map(({ why, nodes }) => (
            <li key={`${why} ${nodes}`}>
              {nodes}: {why}
            </li>
          ))}
        </Part>
      )}
      {sooner.length > 0 && (
        <Part title="It would start now with">
          {sooner.map((option) => (
            <li key={option}>
              <code>{option}</code>
            </li>
          ))}
        </Part>
      )}
      {place && (
        <Typography color="textSecondary" sx={{ my: 2 }}>
          Place {place.position} of {place.of}
          {place.overdue && ", first because it has waited longest"}
        </Typography>
      )}
    </>
  );
}

function stepWords({ kind, name, why, nodes }: Schemas["StepView"]): string {
  switch (kind) {
    case "run":
      return `${name} ends on ${nodes}`;
    case "member":
      return `Member ${name} ends on ${nodes}`;
    case "pod":
      return `Pod ${name} leaves ${nodes}`;
    case "cordoned":
    case "broken":
      return `${name} takes work again${why && `: ${why}`}`;
    case "ahead":
      return `${name}, which comes first, is stopped`;
  }
}
