import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Chip from "@mui/material/Chip";
import { useState } from "react";
import { Link } from "react-router";
import type { Run } from "../api/client";
import { addressOf, pairsOf } from "./labels";
import { LabelsDialog } from "./LabelsDialog";

/** The labels of a run, each of which leads to all runs that have it. */
export function LabelChips({ run, mayChange }: { run: Run; mayChange: boolean }) {
  const [isEditing, setIsEditing] = useState(false);
  const pairs = pairsOf(run.labels);
  return (
    <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 1, minWidth: 0 }}>
      {pairs.map((pair) => (
        <Chip key={pair} component={Link} to={addressOf(pair)} clickable size="small" variant="outlined" label={<bdi>{pair}</bdi>} title={`All runs with ${pair}`} sx={{ maxWidth: "100%" }} />
      ))}
      {mayChange && (
        <Button size="small" onClick={() => setIsEditing(true)} aria-label={pairs.length ? "Change labels" : "Add labels"} sx={{ py: 0, minWidth: 0 }}>
          {pairs.length ? "Change" : "Add"}
        </Button>
      )}
      {isEditing && <LabelsDialog run={run} close={() => setIsEditing(false)} />}
    </Box>
  );
}
