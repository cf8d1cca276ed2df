import { pairsOf } from "../../labels/labels";
import { StateMark } from "../../states/StateMark";
import { FINAL, STATES } from "../../states/states";
import type { SortKeys } from "../../table/sorting";
import { Age } from "../../words/times/Age";
import { count, gpusWords } from "../../words/amounts";
import { exact } from "../../words/times/times";
import type { Column } from "../../common/VirtualTable";
import type { Row } from "../data/rows";
import type { Whose } from "../filter/whose";
import { FIGURE_COLUMNS, FIGURE_KEYS } from "./figureColumns";
import type { ListedRow } from "../data/listed";

const LIFE = Object.keys(STATES);

/** The orders of the Web API's list of runs, and those by figures. */
export const SORT_KEYS: SortKeys<ListedRow> = {
  name: (run) => run.name,
  namespace: (run) => run.namespace,
  owner: (run) => run.owner,
  phase: (run) => LIFE.indexOf(run.phase),
  reason: (run) => run.reason,
  gpus: (run) => run.gpus,
  members: (run) => run.members.total ?? 0,
  restarts: (run) => run.restarts,
  createdAt: (run) => run.createdAt,
  queuedAt: (run) => run.queuedAt,
  startsAt: (run) => run.startsAt || null,
  startedAt: (run) => run.startedAt,
  finishedAt: (run) => run.finishedAt,
  ...FIGURE_KEYS,
};

/** The columns of the table of runs. */
export const COLUMNS: Column<ListedRow>[] = [
  { name: "State", width: "128px", phone: "98px", sort: "phase", cell: (run) => <StateMark phase={run.phase} finding={run.finding} /> },
  { name: "Name", width: "minmax(140px, 3fr)", phone: "minmax(0, 1fr)", isLink: true, sort: "name", cell: (run) => run.name },
  { name: "Team", width: "minmax(80px, 1fr)", sort: "namespace", cell: (run) => run.namespace },
  { name: "Owner", width: "minmax(100px, 1.5fr)", sort: "owner", cell: (run) => run.owner },
  { name: "Labels", width: "minmax(120px, 2fr)", isExtra: true, cell: (run) => pairsOf(run.labels).join(", ") },
  { name: "Members", width: "112px", right: true, sort: "members", descending: true, cell: members },
  { name: "GPUs", width: "96px", right: true, sort: "gpus", descending: true, cell: (run) => gpusWords(run.gpus, run.gpuType) },
  ...FIGURE_COLUMNS,
  {
    name: "Age",
    width: "104px",
    phone: "84px",
    right: true,
    sort: "createdAt",
    descending: true,
    cell: (run) => <Age time={run.createdAt} />,
  },
  { name: "Why", width: "minmax(200px, 5fr)", cell: why },
  { name: "Expected start", width: "minmax(160px, 1fr)", sort: "startsAt", isExtra: true, cell: ({ startsAt }) => exact(startsAt) },
  { name: "Note", width: "minmax(160px, 3fr)", isExtra: true, cell: (run) => run.note ?? "" },
  { name: "Image", width: "minmax(120px, 2fr)", isExtra: true, cell: (run) => run.image },
  { name: "Reason", width: "minmax(120px, 1fr)", sort: "reason", isExtra: true, cell: (run) => run.reason },
  { name: "Restarts", width: "80px", right: true, sort: "restarts", descending: true, isExtra: true, cell: (run) => `${run.restarts}` },
  { name: "Queued", width: "104px", right: true, sort: "queuedAt", descending: true, isExtra: true, cell: (run) => <Age time={run.queuedAt} /> },
  { name: "Started", width: "104px", right: true, sort: "startedAt", descending: true, isExtra: true, cell: (run) => <Age time={run.startedAt} /> },
  { name: "Ended", width: "104px", right: true, sort: "finishedAt", descending: true, isExtra: true, cell: (run) => <Age time={run.finishedAt} /> },
];

/** Return the columns with those marked as extra that are not shown at first: at most eight are. With GPUs there is no room for the number of members; one's own runs need no owner, and one team only as a rule. */
export function columnsFor(whose: Whose, hasGpus: boolean): Column<ListedRow>[] {
  const isMine = whose === "mine";
  const extra = new Set([isMine ? "Owner" : "Loss", hasGpus ? (isMine ? "Team" : "Members") : "GPU use"]);
  return COLUMNS.map((column) => (extra.has(column.name) ? { ...column, isExtra: true } : column));
}

/** The columns while a run is open beside the table. */
export const BESIDE_COLUMNS: Column<ListedRow>[] = [
  { name: "State", width: "98px", sort: "phase", cell: (run) => <StateMark phase={run.phase} finding={run.finding} /> },
  { name: "Name", width: "minmax(0, 1fr)", isLink: true, sort: "name", cell: (run) => run.name },
  { name: "Progress", width: "minmax(0, 1fr)", sort: "members", descending: true, cell: progress },
];

function why({ starts, message }: ListedRow): string {
  return [starts, message].filter(Boolean).join(": ");
}

/** Why a run waits or failed, or how many of its members run. */
function progress(run: ListedRow): string {
  if (why(run) || !FINAL.has(run.phase)) return why(run) || members(run);
  return run.members.total === 1 ? "1 member" : `${members(run)} members`;
}

function members({ members: { total, running }, phase }: Row): string {
  if (!total) return "";
  return FINAL.has(phase) ? count(total) : `${count(running ?? 0)} of ${count(total)}`;
}
