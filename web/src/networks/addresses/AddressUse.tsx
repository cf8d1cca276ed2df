import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { client, contentOf } from "../../api/client";
import { Problem } from "../../app/Problem";
import { Since } from "../../words/times/Since";
import { VirtualTable, type Column } from "../../common/VirtualTable";
import { scarcestFirst, shareOf, wordsOfUse, type NodeNetwork } from "./addresses";
import { AddressForecast } from "./AddressForecast";
import { Findings } from "../Findings";
import { useNetworks } from "../useNetworks";

const REFRESH_MS = 30_000;
const COLUMNS: Column<NodeNetwork>[] = [
  { name: "Node", width: "minmax(140px, 1fr)", phone: "minmax(0, 1fr)", isLink: true, cell: ({ name }) => name },
  { name: "Use", width: "96px", phone: "72px", cell: (node) => <Share share={shareOf(node)} isShort={!!node.runsOut} /> },
  { name: "In use", width: "72px", phone: "64px", right: true, cell: ({ pods }) => `${pods}` },
  { name: "Addresses", width: "96px", phone: "80px", right: true, cell: ({ addresses }) => addresses?.toLocaleString("en") ?? "" },
  { name: "Pods at most", width: "104px", right: true, cell: ({ mostPods }) => `${mostPods}` },
  { name: "Ranges", width: "minmax(140px, 1fr)", cell: ({ podCidrs }) => podCidrs.join(", ") },
  { name: "Runs out", width: "minmax(220px, 3fr)", cell: ({ runsOut }) => runsOut },
];

/** Addresses for Pods on each node, those that run out first. */
export function AddressUse({ text, change }: { text: string; change: (changes: Readonly<Record<string, string>>) => void }) {
  const use = useQuery({
    queryKey: ["networks-use"],
    queryFn: async () => contentOf(await client.GET("/v1/networks/use")),
    refetchInterval: REFRESH_MS,
  });
  const registry = useNetworks();
  const items = use.data?.items;
  const shown = useMemo(() => scarcestFirst((items ?? []).filter(({ name, podCidrs, runsOut }) => [name, ...podCidrs, runsOut].join(" ").toLowerCase().includes(text.toLowerCase()))), [items, text]);
  if (use.error && !use.data) return <Problem error={use.error} retry={() => void use.refetch()} />;
  if (!items) return <Skeleton variant="rectangular" height={320} />;
  return (
    <>
      <AddressForecast />
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Typography sx={{ flex: "1 1 320px" }}>{wordsOfUse(items)}</Typography>
        <Since currentAt={use.dataUpdatedAt} error={use.error} />
        <TextField size="small" value={text} onChange={(event) => change({ text: event.target.value })} placeholder="Node, range, reason …" slotProps={{ htmlInput: { "aria-label": "Filter" } }} sx={{ width: { xs: "100%", sm: 220 } }} />
      </Box>
      <Findings title="Clusters whose ranges are nearly full" findings={(registry.data?.findings ?? []).filter(({ code }) => code === NEARLY_FULL)} />
      {shown.length > 0 && <VirtualTable label="Addresses of nodes" columns={COLUMNS} items={shown} minWidth={960} keyOf={({ name }) => name} addressOf={({ name }) => `/cluster/${encodeURIComponent(name)}`} opensOnClick />}
      {!shown.length && items.length > 0 && <Typography color="textSecondary">No node fits the filter.</Typography>}
    </>
  );
}

const NEARLY_FULL = "NearlyFull";

function Share({ share, isShort }: { share: number | null; isShort: boolean }) {
  if (share === null) return null;
  return (
    <Box component="span" aria-hidden="true" sx={{ display: "block", height: 8, borderRadius: 1, overflow: "hidden", bgcolor: "divider" }}>
      <Box component="span" sx={{ display: "block", height: "100%", bgcolor: isShort ? "warning.main" : "primary.main" }} style={{ width: `${Math.min(100, Math.round(100 * share))}%` }} />
    </Box>
  );
}
