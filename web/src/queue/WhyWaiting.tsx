import Typography from "@mui/material/Typography";
import { Link } from "react-router";
import type { Schemas } from "../api/client";
import { Age } from "../words/times/Age";
import { NodeNames } from "../cluster/NodeNames";
import { anyGpus, bytes, cpus } from "../words/amounts";
import { Faint, Part } from "../common/Part";
import { sentence } from "../words/sentence";
import { ahead, needWords } from "./words";

interface Properties {
  found: Schemas["ExplanationView"];
  /** `namespace/name` of the waiting run. */
  id: string;
  now: number;
  /** The address of another run in the queue. */
  addressOf: (key: string) => string;
}

/** Why a run waits, what exactly has to happen before it starts, and who holds what it needs. */
export function WhyWaiting(properties: Properties) {
  const { place, controller, message } = properties.found;
  return (
    <>
      <Typography sx={{ overflowWrap: "anywhere" }}>{sentence(message)}</Typography>
      {controller && <Typography color="warning">{sentence(controller.says)}</Typography>}
      <WhatHasToHappen {...properties} />
      {place && (
        <Typography color="textSecondary" sx={{ my: 2 }}>
          Place {place.position} of {place.of}
          {place.overdue && ", first because it has waited longest"}
        </Typography>
      )}
    </>
  );
}

/** What exactly has to happen before a run starts, and who holds what it needs. */
export function WhatHasToHappen({ found, id, now, addressOf }: Properties) {
  const { toFree, kept, asks = [], sooner = [], behind = [], blocked = [], held = [], controller } = found;
  const linked = (key: string) => (
    <li key={key}>
      <Link to={addressOf(key)}>{key}</Link>
    </li>
  );
  return (
    <>
      <Part title="What has to happen" empty={needWords(toFree !== undefined, controller !== undefined)}>
        {(toFree ?? []).map((step) => (
          <li key={`${step.kind} ${step.name}`}>
            <Step step={step} addressOf={addressOf} />
            <Faint>
              {[step.owner && `of ${step.owner}`, step.gpus && anyGpus(step.gpus), step.until && `expected ${ahead(step.until, now)}`].filter(Boolean).join(", ")}
            </Faint>
          </li>
        ))}
      </Part>
      {!!toFree?.length && <Link to={`/cluster?room=${encodeURIComponent(id)}`}>Show these nodes on the map</Link>}
      {asks.length > 0 && <Part title="It preempts">{asks.map(linked)}</Part>}
      {kept && (
        <Part title="Reserved for it">
          <li><NodeNames list={kept.nodes} /></li>
        </Part>
      )}
      {behind.length > 0 && <Part title="It would delay">{behind.map(linked)}</Part>}
      {held.length > 0 && (
        <Part title="Who holds what it needs">
          {held.map((holder) => (
            <li key={holder.holder}>
              {holder.isRun ? <Link to={addressOf(holder.holder)}>{holder.holder}</Link> : `Pod ${holder.holder}`}
              {holder.owner && ` of ${holder.owner}`}
              <Faint>
                {holder.gpus ? anyGpus(holder.gpus) : `${cpus(holder.cpuMillis)} CPUs, ${bytes(holder.memoryBytes)}`} on <NodeNames list={holder.nodes} /> for <Age time={holder.since} lasting />
                {holder.until && `, expected to end ${ahead(holder.until, now)}`}
              </Faint>
            </li>
          ))}
        </Part>
      )}
      {blocked.length > 0 && (
        <Part title="Nodes that take no work">
          {blocked.map(({ why, nodes }) => (
            <li key={`${why} ${nodes}`}>
              <NodeNames list={nodes} />: {why}
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
    </>
  );
}

/** One thing that has to happen. */
function Step({ step, addressOf }: { step: Schemas["StepView"]; addressOf: (key: string) => string }) {
  const { kind, name, run, why, nodes } = step;
  switch (kind) {
    case "run":
      return <><Link to={addressOf(name)}>{name}</Link> ends on <NodeNames list={nodes} /></>;
    case "member":
      return <>{run ? <Link to={addressOf(run)}>{name}</Link> : name} ends on <NodeNames list={nodes} /></>;
    case "pod":
      return <>Pod {name} leaves <NodeNames list={nodes} /></>;
    case "cordoned":
    case "broken":
      return <><Link to={`/cluster/${encodeURIComponent(name)}`}>{name}</Link> takes work again{why && `; now: ${why}`}</>;
    case "ahead":
      return <><Link to={addressOf(name)}>{name}</Link> no longer waits before it</>;
  }
}
