import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, ensureDone } from "../api/client";
import { Problem } from "../app/Problem";
import { For } from "../mine/For";
import { Section } from "../mine/Section";
import { bytes } from "../words/amounts";
import { CopyLine } from "../common/CopyLine";
import { Faint, PlainList } from "../common/Part";
import { sentence } from "../words/sentence";
import { DeletableItem } from "./DeletableItem";
import { usersInWords } from "./needs";
import { useVolumes, type Volume } from "./useNeeds";

/** The volumes that runs of one of my teams can mount, and the checkpoints that earlier runs left. */
export function Volumes({ teams }: { teams: readonly string[] }) {
  const queries = useQueryClient();
  const [chosen, setChosen] = useState("");
  const team = teams.includes(chosen) ? chosen : (teams[0] ?? "");
  const volumes = useVolumes(team);
  const items = volumes.data?.items ?? [];
  const remove = async (name: string) => {
    ensureDone(await client.DELETE("/v1/volumes/{name}", { params: { path: { name }, query: { namespace: team } } }));
    await queries.invalidateQueries({ queryKey: ["volumes"] });
  };
  return (
    <Section title="Volumes and checkpoints" actions={teams.length > 1 && <For label="Team" value={team} choices={teams} choose={setChosen} />}>
      {volumes.error && !volumes.data && <Problem error={volumes.error} retry={() => void volumes.refetch()} />}
      {volumes.isPending && <Skeleton variant="rectangular" height={64} />}
      {volumes.data && !items.length && <Typography color="textSecondary">Policy offers no volumes to runs of {team}, and they left no checkpoints.</Typography>}
      <PlainList>
        {items.map((volume) => (
          <DeletableItem
            key={`${team} ${volume.kind} ${volume.name}`}
            name={volume.name}
            loss={`The checkpoint of ${volume.run} is deleted with everything in it. This can't be undone.`}
            {...(volume.kind === "checkpoint" && !volume.usedBy.length && { remove: () => remove(volume.name) })}
          >
            <Typography component="span" sx={{ fontWeight: 600 }}>
              {volume.name}
            </Typography>
            {volume.readOnly && " (read-only)"}
            <Faint>{inWords(volume)}</Faint>
          </DeletableItem>
        ))}
      </PlainList>
      {volumes.data?.note && <Typography color="textSecondary">{sentence(volumes.data.note)}</Typography>}
      {items.length > 0 && (
        <Box sx={{ mt: 3 }}>
          <CopyLine text="kaji volumes" />
        </Box>
      )}
    </Section>
  );
}

function inWords({ kind, source, state, sizeBytes, run, usedBy }: Volume): string {
  const what = kind === "checkpoint" ? `Checkpoint of ${run}` : kind === "folder" ? "Folder of the nodes, and all below it" : source;
  const parts = [what, sizeBytes ? bytes(sizeBytes) : "", state && state !== "Bound" ? state : "", usersInWords(usedBy)];
  return parts.filter(Boolean).join(", ");
}
