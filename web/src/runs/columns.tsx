import type { ReactNode } from "react";
import type { Run } from "../api/client";
import { StateMark } from "../states/StateMark";
import { Age } from "../words/Age";

export interface Column {
  name: string;
  width: string;
  right?: boolean;
  cell: (run: Run) => ReactNode;
}

/** The columns of the table of runs. */
export const COLUMNS: Column[] = [
  { name: "State", width: "128px", cell: (run) => <StateMark phase={run.status.phase} /> },
  { name: "Name", width: "minmax(140px, 2fr)", cell: (run) => run.name },
  { name: "Team", width: "minmax(80px, 1fr)", cell: (run) => run.namespace },
  { name: "Owner", width: "minmax(100px, 1fr)", cell: (run) => run.owner },
  { name: "Members", width: "88px", right: true, cell: members },
  { name: "GPUs", width: "96px", right: true, cell: gpus },
  { name: "Age", width: "104px", right: true, cell: (run) => <Age time={run.createdAt} /> },
  { name: "Why", width: "minmax(160px, 3fr)", cell: (run) => run.status.message },
];

function members(run: Run): string {
  const { total, running } = run.status.members;
  return total ? `${running} of ${total}` : "";
}

function gpus(run: Run): string {
  const { gpu, gpuType } = run.spec.resources ?? {};
  const each = Number(gpu ?? 0);
  const all = each * (run.status.members.total || Number(run.spec.replicas ?? 1));
  return all ? [all, gpuType].filter(Boolean).join(" ") : "";
}
