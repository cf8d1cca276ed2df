import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Slider from "@mui/material/Slider";
import Typography from "@mui/material/Typography";
import { useEffect, useMemo, useState } from "react";
import { Refused, type Schemas } from "../../api/client";
import { useGpus } from "../../board/useGpus";
import { exact } from "../../words/times/times";
import { inWords, membersIn, stopsFor, typesFor } from "./alternatives";
import { requestOf, type Draft, type Form } from "../form";
import { useWhatIfs } from "./useWhatIfs";

const MOST_TYPES = 8;

/** The server's answer about one alternative. */
export interface Outcome {
  members: number;
  gpuType: string;
  found: Schemas["WhatIf"];
}

interface Properties {
  draft: Draft;
  /** The waiting run whose place in the queue the alternatives have; without it they come last. */
  inPlaceOf?: string;
  /** Take an alternative into the form. */
  change?: (part: Partial<Form>) => void;
  /** Called with the outcomes of all alternatives that are shown. */
  tell?: (outcomes: readonly Outcome[]) => void;
}

/** A slider for the number of members, and a choice of GPU types, each with what would happen. */
export function WhatIfs({ draft, inPlaceOf = "", change, tell }: Properties) {
  const wanted = membersIn(draft);
  const [tried, setTried] = useState<number | null>(null);
  const gpus = useGpus();
  const stops = useMemo(() => stopsFor(wanted ?? 1), [wanted]);
  const members = tried !== null && stops.includes(tried) ? tried : wanted;
  const types = typesFor(draft.form, gpus.data?.types ?? []).slice(0, MOST_TYPES);
  const asked = types.length ? types : [draft.form.gpuType];
  const part = (gpuType: string): Partial<Form> => ({ gpuType, ...(members !== null && { members: members === 1 ? "" : `${members}` }) });
  const requests = useMemo(() => asked.map((type) => requestOf(named(draft, inPlaceOf, part(type)))), [draft, inPlaceOf, members, asked.join()]);
  const answers = useWhatIfs(requests);
  useEffect(() => {
    tell?.(answers.flatMap(({ data, error }, index) => (data && !error ? [{ members: members ?? data.start.members ?? 1, gpuType: asked[index] ?? "", found: data }] : [])));
  }, [tell, answers, members, asked.join()]);
  useEffect(() => () => tell?.([]), [tell]);
  if (members === null && !types.length && change) return null; // there is nothing else that the form could say
  return (
    <Box component="section" aria-label="What if" sx={{ display: "grid", gap: 2 }}>
      {members === null ? (
        <Typography>{types.length ? "What if it had other GPUs?" : "When would it start?"}</Typography>
      ) : (
        <Members members={members} stops={stops} choose={setTried} />
      )}
      {asked.map((type, index) => {
        const { data, error } = answers[index] ?? {};
        const isForm = members === wanted && type === draft.form.gpuType;
        return (
          <Box key={type} sx={{ display: "flex", alignItems: "baseline", gap: 3 }}>
            <Box component="span" sx={{ flex: "0 0 auto", minWidth: 56, fontWeight: isForm ? 600 : 400 }}>
              {type || "This run"}
            </Box>
            <Box component="span" sx={{ flex: 1, overflowWrap: "anywhere" }} aria-live="polite">
              {error ? (error instanceof Refused ? error.message : "no answer") : data ? inWords(data, exact) : "…"}
            </Box>
            {change && !isForm && !error && (
              <Button size="small" onClick={() => change(part(type))} aria-label={`Use it: ${members === null ? "" : `${members} × `}${type || "any type"}`}>
                Use it
              </Button>
            )}
          </Box>
        );
      })}
    </Box>
  );
}

function Members({ members, stops, choose }: { members: number; stops: number[]; choose: (members: number) => void }) {
  return (
    <>
      <Typography component="label" id="what-if-members">
        What if it had {members} {members === 1 ? "member" : "members"}?
      </Typography>
      <Box sx={{ px: 3 }}>
        <Slider
          size="small"
          aria-labelledby="what-if-members"
          value={members}
          min={stops[0]}
          max={stops.at(-1)}
          step={null}
          scale={(value) => value}
          marks={stops.map((value) => ({ value, label: `${value}` }))}
          onChange={(_, value) => choose(value as number)}
        />
      </Box>
    </>
  );
}

/** The draft with the name of the waiting run whose place it has; any other name would ask for the place of the run that has it. */
function named(draft: Draft, name: string, part: Partial<Form>): Draft {
  return { ...draft, form: { ...draft.form, ...part, name } };
}
