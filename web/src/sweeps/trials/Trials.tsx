import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useContext, useMemo, useRef } from "react";
import { useNavigate } from "react-router";
import type { Run } from "../../api/client";
import { ScrollingPanel } from "../../sidepanel/scrolling";
import { ColumnChoice } from "../../table/columns/ColumnChoice";
import { orderText } from "../../table/sorting";
import { useColumns } from "../../table/columns/useColumns";
import { useInPlace } from "../../table/useInPlace";
import { useRowKeys } from "../../table/useRowKeys";
import { saveFile } from "../../common/saveFile";
import { VirtualTable } from "../../common/VirtualTable";
import { csvOf } from "../commands";
import { trialColumns } from "./trialColumns";
import type { Trial, ValueColumn } from "./trials";
import type { Part } from "../view";

interface Properties {
  run: Run;
  trials: readonly Trial[];
  /** Number of all members. */
  total: number;
  columns: readonly ValueColumn[];
  part: Part;
  /** The name that counts. */
  by: string;
  hasFailures: boolean;
  /** The column that orders the rows, after a dash for descending. */
  sort: string;
  sortBy: (sort: string) => void;
  addressOf: (member: number) => string;
  search: () => void;
}

/** The members as a table that any column orders. Rows keep their places while the pointer is over them. */
export function Trials({ run, trials, total, columns, part, by, hasFailures, sort, sortBy, addressOf, search }: Properties) {
  const navigate = useNavigate();
  const all = useMemo(() => trialColumns(columns, part, by, hasFailures), [columns, part, by, hasFailures]);
  // Sweeps of one study are often numbered: tune-1, tune-2.
  const [chosen, choose] = useColumns(`sweep${part === "failed" ? "-failed" : ""} ${run.namespace}/${run.name.replace(/[-.]?\d+$/, "")}`, all);
  const { rows, fresh, setHovered } = useInPlace(trials, keyOf, `${sort} ${part} ${by}`);
  const to = (trial: Trial) => addressOf(trial.index);
  const box = useRef<HTMLDivElement>(null);
  // Beside the list of sweeps, the keys are for that list unless the focus is in this one.
  const isPart = useContext(ScrollingPanel) !== null;
  const current = useRowKeys(rows, keyOf, { open: (trial) => void navigate(to(trial)), search }, isPart ? { within: box } : {});
  const order = sort ? { by: sort.replace(/^-/, ""), descending: sort.startsWith("-") } : null;
  return (
    <div ref={box}>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 2, mt: 4, mb: 1 }}>
        <Typography role="status" color="textSecondary" sx={{ flex: "1 1 auto" }}>
          {trials.length === total ? `${counted(total)} members` : `${counted(trials.length)} of ${counted(total)} members`}
          {fresh > 0 && `; ${counted(fresh)} more when the pointer leaves the table`}
        </Typography>
        <ColumnChoice columns={all} chosen={chosen} choose={choose} />
        <Button size="small" onClick={() => saveFile(`${run.name}.csv`, csvOf(trials, columns))}>
          CSV of these rows
        </Button>
      </Box>
      {rows.length > 0 && (
        <VirtualTable
          label="Members"
          columns={chosen}
          items={rows}
          minWidth={Math.max(640, chosen.length * 112)}
          keyOf={keyOf}
          addressOf={to}
          current={current}
          nameOf={({ index, state }) => `Member ${index}, ${state}`}
          opensOnClick
          order={order}
          sort={(next) => sortBy(orderText(next))}
          onHover={setHovered}
        />
      )}
    </div>
  );
}

function keyOf({ index }: Trial): string {
  return `${index}`;
}

function counted(number: number): string {
  return number.toLocaleString("en");
}
