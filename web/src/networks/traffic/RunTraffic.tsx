import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Skeleton from "@mui/material/Skeleton";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "react-router";
import { client, contentOf } from "../../api/client";
import { Problem } from "../../app/Problem";
import { BandPlot } from "../../figures/BandPlot";
import { bytes } from "../../words/amounts";
import { lineOf } from "../../words/commands";
import { CopyLine } from "../../common/CopyLine";
import type { TrafficRow } from "./traffic";

const REFRESH_MS = 30_000;
const MOST_NODES = 20;
const QUANTITIES = ["network.sent", "network.received"];

/** The traffic of one run: by class of addresses, by node, and over the last day as far as it was kept. */
export function RunTraffic({ id, close }: { id: string; close: () => void }) {
  const [namespace = "", name = ""] = id.split("/");
  const path = { namespace, name };
  const navigate = useNavigate();
  const traffic = useQuery({
    queryKey: ["run-traffic", id],
    queryFn: async () => contentOf(await client.GET("/v1/runs/{namespace}/{name}/traffic", { params: { path, query: {} } })),
    refetchInterval: REFRESH_MS,
    retry: false,
  });
  const metrics = useQuery({
    queryKey: ["run-traffic-series", id],
    queryFn: async () => contentOf(await client.GET("/v1/runs/{namespace}/{name}/metrics", { params: { path, query: { since: "1d", name: QUANTITIES } } })),
    refetchInterval: REFRESH_MS,
    retry: false,
  });
  const page = `/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const series = metrics.data?.series ?? [];
  return (
    <Box component="section" aria-label={`Traffic of ${namespace}/${name}`} sx={{ border: 1, borderColor: "divider", borderRadius: 1, p: 4, bgcolor: "background.paper", minWidth: 0 }}>
      <Box sx={{ display: "flex", alignItems: "start", gap: 3, mb: 2 }}>
        <Typography variant="h2" sx={{ flex: 1, overflowWrap: "anywhere" }}>
          <Link to={page}>{`${namespace}/${name}`}</Link>
        </Typography>
        <Button size="small" onClick={close}>
          Close
        </Button>
      </Box>
      {traffic.error && !traffic.data && <Problem error={traffic.error} retry={() => void traffic.refetch()} />}
      {!traffic.data && !traffic.error && <Skeleton variant="rectangular" height={160} />}
      {traffic.data?.run && <Classes row={traffic.data.run} />}
      {traffic.data && traffic.data.items.length > 1 && <Nodes rows={traffic.data.items} total={traffic.data.total} />}
      {series.map((each) => (
        <Box key={each.name} sx={{ mt: 3 }}>
          <BandPlot series={each} intervalSeconds={metrics.data?.intervalSeconds ?? 60} chooseRank={(rank) => void navigate(`${page}?tab=figures&rank=${rank}`)} />
        </Box>
      ))}
      {metrics.data && !series.length && (
        <Typography color="textSecondary" sx={{ mt: 3 }}>
          Over time nothing was kept yet. Members that share the network of their node have no figures of their own.
        </Typography>
      )}
      <Box sx={{ mt: 3 }}>
        <CopyLine text={lineOf("traffic", { "-N": namespace }, [name])} />
      </Box>
    </Box>
  );
}

function Classes({ row }: { row: TrafficRow }) {
  if (!row.classes.length) return <Typography color="textSecondary">Nothing was counted of this run.</Typography>;
  return (
    <Table size="small" aria-label="By class of addresses">
      <TableHead>
        <TableRow>
          <TableCell sx={{ pl: 0 }}>With</TableCell>
          <TableCell align="right">Sent</TableCell>
          <TableCell align="right" sx={{ pr: 0 }}>
            Received
          </TableCell>
        </TableRow>
      </TableHead>
      <TableBody>
        {row.classes.map(({ name, sent, received }) => (
          <TableRow key={name}>
            <TableCell sx={{ pl: 0 }}>{name}</TableCell>
            <TableCell align="right">{amount(sent)}</TableCell>
            <TableCell align="right" sx={{ pr: 0 }}>
              {amount(received)}
            </TableCell>
          </TableRow>
        ))}
      </TableBody>
    </Table>
  );
}

function amount({ bytes: size, bytesPerSecond }: { bytes: number; bytesPerSecond: number }): string {
  return bytesPerSecond ? `${bytes(size)}, now ${bytes(bytesPerSecond)}/s` : bytes(size);
}

function Nodes({ rows, total }: { rows: readonly TrafficRow[]; total: number }) {
  return (
    <Table size="small" aria-label="By node" sx={{ mt: 3 }}>
      <TableBody>
        {rows.slice(0, MOST_NODES).map(({ name, classes }) => (
          <TableRow key={name}>
            <TableCell sx={{ pl: 0 }}>
              <Link to={`/cluster/${encodeURIComponent(name)}`}>{name}</Link>
            </TableCell>
            <TableCell align="right" sx={{ pr: 0 }}>
              {classes.map((each) => `${each.name} ${bytes(each.sent.bytes + each.received.bytes)}`).join(", ")}
            </TableCell>
          </TableRow>
        ))}
        {total > MOST_NODES && (
          <TableRow>
            <TableCell colSpan={2} sx={{ pl: 0 }}>{`and ${total - MOST_NODES} more nodes`}</TableCell>
          </TableRow>
        )}
      </TableBody>
    </Table>
  );
}
