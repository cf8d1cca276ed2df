import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { Suspense, useMemo } from "react";
import { useAddress, withValues } from "../address/useAddress";
import type { Run } from "../api/client";
import { later } from "../app/parts";
import { isFinal, membersOf } from "../run/data/status";
import { useMayChange } from "../verbs/useMayChange";
import { BandFigures } from "./BandFigures";
import { curveValues, curveViewOf } from "./curves";
import { RankFigures } from "./RankFigures";

const TensorBoard = later(async () => (await import("../tensorboard/TensorBoard")).TensorBoard);

const RANGES: readonly [string, string][] = [
  ["1h", "Last hour"],
  ["6h", "Last 6 hours"],
  ["1d", "Last day"],
  ["7d", "Last 7 days"],
  ["all", "All"],
];

interface Properties {
  run: Run;
  /** The rank whose own figures are shown; null: bands over all ranks. */
  rank: number | null;
  isRemoved: boolean;
}

/** Telemetry of a run, and the figures that its program wrote, over time; curves of the training also over steps. The address holds the choices. */
export function Figures({ run, rank, isRemoved }: Properties) {
  const [parameters, changeAddress] = useAddress();
  const usual = isFinal(run) ? "all" : "1h";
  const range = RANGES.find(([value]) => value === parameters.get("since"))?.[0] ?? usual;
  const mayEnter = useMayChange()(run.namespace);
  const view = useMemo(() => curveViewOf(parameters), [parameters]);
  const set = (values: Readonly<Record<string, string>>, asEntry = false) => changeAddress((newest) => withValues(newest, values), asEntry);
  const chooseRank = (chosen: number | null) => set({ rank: chosen === null ? "" : `${chosen}` }, true);
  const parts = { run, view, change: (part: Partial<typeof view>) => changeAddress((newest) => withValues(newest, curveValues({ ...curveViewOf(newest), ...part }))) };
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        {rank === null ? (
          <TextField select size="small" label="Time" value={range} onChange={(event) => set({ since: event.target.value === usual ? "" : event.target.value })}>
            {RANGES.map(([value, word]) => (
              <MenuItem key={value} value={value}>
                {word}
              </MenuItem>
            ))}
          </TextField>
        ) : (
          <Button size="small" variant="outlined" onClick={() => chooseRank(null)}>
            All ranks
          </Button>
        )}
        {membersOf(run).total > 1 && (
          <TextField
            size="small"
            label="Rank"
            type="number"
            value={rank ?? ""}
            onChange={(event) => chooseRank(event.target.value === "" ? null : Math.max(0, Number(event.target.value)))}
            sx={{ width: 96 }}
          />
        )}
        <Typography color="textSecondary">
          {rank === null
            ? "Median, and ranges of most and all ranks. Click a rank's extreme for the rank itself; drag to look closer."
            : `The last hour of rank ${rank}, as its node kept it.`}
        </Typography>
      </Box>
      {mayEnter && !isRemoved && (
        <Suspense>
          <TensorBoard run={run} rank={rank ?? 0} />
        </Suspense>
      )}
      {rank === null ? <BandFigures {...parts} since={range === "all" ? run.createdAt : range} chooseRank={chooseRank} /> : <RankFigures key={rank} {...parts} rank={rank} />}
    </>
  );
}
