import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { Problem } from "../../app/Problem";
import { lineOf } from "../../words/commands";
import { CopyLine } from "../../common/CopyLine";
import { Since } from "../../words/times/Since";
import { addressOf, found, outsideOf, sizeOf, throughOf } from "./addresses";
import { Findings } from "../Findings";
import { useNetworks } from "../useNetworks";

const MOST = 500;
const COLUMNS = ["Cluster", "What", "Range", "Addresses", "From outside", "Through"];

/** The addresses of all clusters, to whom they belong and how they are reached. */
export function RegistryTable({ text, change }: { text: string; change: (changes: Readonly<Record<string, string>>) => void }) {
  const registry = useNetworks();
  if (registry.error && !registry.data) return <Problem error={registry.error} retry={() => void registry.refetch()} />;
  if (!registry.data) return <Skeleton variant="rectangular" height={320} />;
  const { ranges, faults, findings, path } = registry.data;
  const shown = found(ranges, text);
  const isAddress = addressOf(text.trim()) !== null;
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Typography color="textSecondary" sx={{ flex: "1 1 240px", overflowWrap: "anywhere" }}>
          {path && `From ${path}, which the server reads again when it changes.`}
        </Typography>
        <Since currentAt={registry.dataUpdatedAt} error={registry.error} />
        <TextField size="small" value={text} onChange={(event) => change({ text: event.target.value })} placeholder="Whose is 10.16.3.4? Or words …" slotProps={{ htmlInput: { "aria-label": "Address or words" } }} sx={{ width: { xs: "100%", sm: 260 } }} />
      </Box>
      {faults.length > 0 && (
        <Alert severity="error" variant="outlined" sx={{ mb: 3 }}>
          The newest file has faults, so the registry before it stays in force:
          <Box component="ul" sx={{ m: 0, pl: 5, overflowWrap: "anywhere" }}>
            {faults.map(({ field, message }) => (
              <li key={`${field} ${message}`}>{[field, message].filter(Boolean).join(": ")}</li>
            ))}
          </Box>
        </Alert>
      )}
      {!ranges.length && (
        <Box sx={{ maxWidth: 720 }}>
          <Typography gutterBottom>This server has no registry of addresses. An operator writes a file with the ranges of all clusters, and gives it to the server:</Typography>
          <CopyLine text="kaji server --networks networks.yaml" />
        </Box>
      )}
      {ranges.length > 0 && !shown.length && <Typography color="textSecondary">{isAddress ? "This address belongs to no range of the registry." : "No range fits the filter."}</Typography>}
      {shown.length > 0 && (
        <Box sx={{ overflowX: "auto" }} tabIndex={0} role="region" aria-label="Ranges of addresses">
          <Table size="small" aria-label="Ranges" sx={{ minWidth: 720 }}>
            <TableHead>
              <TableRow>
                {COLUMNS.map((word) => (
                  <TableCell key={word} align={word === "Addresses" ? "right" : "left"} sx={{ color: "text.secondary" }}>
                    {word}
                  </TableCell>
                ))}
              </TableRow>
            </TableHead>
            <TableBody>
              {shown.slice(0, MOST).map((range) => (
                <TableRow key={`${range.cluster} ${range.kind} ${range.cidr}`} hover>
                  <TableCell sx={{ maxWidth: 240, overflowWrap: "anywhere" }}>{range.cluster}</TableCell>
                  <TableCell>{range.kind}</TableCell>
                  <TableCell>{range.cidr}</TableCell>
                  <TableCell align="right">{sizeOf(range.cidr)}</TableCell>
                  <TableCell>{outsideOf(range)}</TableCell>
                  <TableCell>{throughOf(range)}</TableCell>
                </TableRow>
              ))}
            </TableBody>
          </Table>
          {shown.length > MOST && <Typography color="textSecondary">{`${shown.length - MOST} more; filter to see them.`}</Typography>}
        </Box>
      )}
      {!text && <Findings findings={findings} />}
      <Box sx={{ mt: 4 }}>
        <CopyLine text={lineOf("network ls", {}, isAddress ? [text.trim()] : [])} />
      </Box>
    </>
  );
}
