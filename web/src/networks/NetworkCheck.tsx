import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { client, contentOf, Refused } from "../api/client";
import { Problem } from "../app/Problem";
import { useSettled } from "../start/useSettled";
import { CopyLine } from "../common/CopyLine";
import { clustersOf, fileWith, NOTHING_PLANNED, saidOf, yamlOf, type Planned } from "./planned";
import { useNetworks } from "./useNetworks";

const KEY = "kajitori-planned-network";
const FIELDS: readonly (readonly [keyof Planned, string, string])[] = [
  ["name", "Name of the cluster", "lyon"],
  ["nodes", "Ranges of nodes", "10.18.0.0/20"],
  ["pods", "Ranges of Pods", "10.48.0.0/14"],
  ["services", "Ranges of Services", "10.98.0.0/16"],
  ["publicServices", "Ranges for Services from outside", "10.113.0.0/16"],
  ["natHost", "NAT host that translates them", "nat-a"],
  ["nodeCount", "Nodes at most", "500"],
  ["podsPerNode", "Pods per node at most", "110"],
  ["nodePrefix", "Length of each node's range", "24"],
];

interface Answer {
  faults: readonly { field: string; message: string; hint?: string }[];
  findings: readonly { field?: string; message: string }[];
}

/** A form for a cluster that is planned. The server checks it together with the clusters that exist. */
export function NetworkCheck() {
  const registry = useNetworks();
  const [planned, setPlanned] = useState(stored);
  useEffect(() => window.sessionStorage.setItem(KEY, JSON.stringify(planned)), [planned]);
  const asked = useSettled(planned);
  const networks = registry.data?.networks ?? {};
  const isEmpty = Object.values(asked).every((value) => !value.trim());
  const check = useQuery({
    queryKey: ["networks-check", registry.dataUpdatedAt, asked],
    queryFn: () => checked(fileWith(networks, asked)),
    enabled: !!registry.data && !isEmpty,
    placeholderData: keepPreviousData,
    retry: false,
  });
  if (registry.error && !registry.data) return <Problem error={registry.error} retry={() => void registry.refetch()} />;
  const place = clustersOf(networks).length;
  const answer = isEmpty ? undefined : check.data;
  const faults = saidOf(answer?.faults ?? [], place);
  const notes = saidOf((answer?.findings ?? []).filter(({ field }) => field?.startsWith(`clusters[${place}]`)), place);
  return (
    <Box sx={{ display: "grid", gridTemplateColumns: { xs: "minmax(0, 1fr)", md: "minmax(0, 1fr) minmax(0, 1fr)" }, gap: 6, alignItems: "start", maxWidth: 1200 }}>
      <Box component="form" aria-label="Planned cluster" onSubmit={(event) => event.preventDefault()} sx={{ display: "grid", gap: 4 }}>
        <Typography color="textSecondary">
          {place ? `A new cluster, checked together with the ${place === 1 ? "cluster" : `${place} clusters`} of the registry. Nothing is changed.` : "A first cluster for the registry. Nothing is changed."}
        </Typography>
        {FIELDS.map(([key, label, example]) => (
          <TextField
            key={key}
            size="small"
            label={label}
            placeholder={example}
            value={planned[key]}
            onChange={(event) => setPlanned({ ...planned, [key]: event.target.value })}
            error={!!faults.byField[key]}
            helperText={faults.byField[key] ?? notes.byField[key] ?? ""}
            slotProps={{ inputLabel: { shrink: true }, formHelperText: { sx: { overflowWrap: "anywhere" } } }}
          />
        ))}
      </Box>
      <Box sx={{ display: "grid", gridTemplateColumns: "minmax(0, 1fr)", gap: 4, minWidth: 0 }}>
        {check.error && !isEmpty && <Problem error={check.error} retry={() => void check.refetch()} />}
        <Box role="status">
          {isEmpty && <Typography>Type a name and ranges: what is wrong with them stands beside the fields, in the server's words.</Typography>}
          {answer && <Verdict faults={answer.faults.length} notes={Object.keys(notes.byField).length + notes.others.length} />}
        </Box>
        {[...faults.others, ...notes.others].map((words) => (
          <Typography key={words} sx={{ overflowWrap: "anywhere" }}>
            {words}
          </Typography>
        ))}
        {!isEmpty && (
          <>
            <Typography>For the file of the registry:</Typography>
            <CopyLine text={yamlOf(planned)} wraps />
          </>
        )}
        <Typography>The same check for a whole file, in a terminal:</Typography>
        <CopyLine text="kaji network validate networks.yaml" />
      </Box>
    </Box>
  );
}

function Verdict({ faults, notes }: { faults: number; notes: number }) {
  if (faults) return <Alert severity="error" variant="outlined">{`${faults} ${faults === 1 ? "fault" : "faults"}: the registry would be refused.`}</Alert>;
  return (
    <Alert severity={notes ? "warning" : "success"} variant="outlined">
      {notes ? "The registry would be accepted, but look at the possible mistakes." : "The registry would be accepted with this cluster."}
    </Alert>
  );
}

/** Return what the server says about a file of addresses: faults, or findings of one without faults. */
async function checked(file: string): Promise<Answer> {
  try {
    const answer = await client.POST("/v1/networks/check", { body: file, bodySerializer: (text) => text, headers: { "Content-Type": "application/yaml" } });
    return { faults: [], findings: contentOf(answer).findings };
  } catch (error) {
    if (error instanceof Refused && error.faults.length) return { faults: error.faults, findings: [] };
    throw error;
  }
}

function stored(): Planned {
  try {
    return { ...NOTHING_PLANNED, ...(JSON.parse(window.sessionStorage.getItem(KEY) ?? "{}") as Partial<Planned>) };
  } catch {
    return NOTHING_PLANNED;
  }
}
