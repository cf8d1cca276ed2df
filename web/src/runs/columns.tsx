import { StateMark } from "../states/StateMark";
import { FINAL } from "../states/states";
import { Age } from "../words/Age";
import type { Column } from "../words/VirtualTable";
import type { Row } from "./rows";

/** The columns of the table of runs. */
export const COLUMNS: Column<Row>[] = [
  { name: "State", width: "128px", cell: (run) => <StateMark phase={run.phase} /> },
  { name: "Name", width: "minmax(140px, 2fr)", isLink: true, cell: (run) => run.name },
  { name: "Team", width: "minmax(80px, 1fr)", cell: (run) => run.namespace },
  { name: "Owner", width: "minmax(100px, 1fr)", cell: (run) => run.owner },
  { name: "Members", width: "88px", right: true, cell: members },
  { name: "GPUs", width: "96px", right: true, cell: gpus },
  { name: "Age", width: "104px", right: true, cell: (run) => <Age time={run.createdAt} /> },
  { name: "Why", width: "minmax(160px, 3fr)", cell: (run) => run.message },
];

function members({ members: { total, running }, phase }: Row): string {
  if (!total) return "";
  return FINAL.has(phase) ? `${total}` : `${running} of ${total}`;
}

function gpus({ gpus, gpuType }: Row): string {
  return gpus ? [gpus, gpuType].filter(Boolean).join(" ") : "";
}
