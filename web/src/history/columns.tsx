import type { Phase } from "../api/client";
import { StateMark } from "../states/StateMark";
import { Age } from "../words/times/Age";
import { DELETED_WORDS } from "../run/data/findRun";
import { reasonWords } from "../words/reason";
import { duration } from "../words/times/times";
import type { Column } from "../common/VirtualTable";
import { lasted, type RecordedRun } from "./filter";

/** The reason of a run whose deletion began before its end. */
const DELETED = "Deleting";

/** The columns of the table of ended runs. */
export const COLUMNS: Column<RecordedRun>[] = [
  { name: "State", width: "128px", phone: "98px", cell: (run) => <StateMark phase={run.phase as Phase} /> },
  { name: "Name", width: "minmax(160px, 2fr)", phone: "minmax(0, 1fr)", isLink: true, cell: (run) => run.name },
  { name: "Team", width: "minmax(80px, 1fr)", cell: (run) => run.namespace },
  { name: "Owner", width: "minmax(96px, 1fr)", cell: (run) => run.owner },
  { name: "GPUs", width: "64px", right: true, cell: (run) => (run.gpus ? run.gpus.toLocaleString() : "") },
  { name: "Attempts", width: "72px", right: true, isExtra: true, cell: (run) => (run.type === "sweep" ? "" : run.attempts || "") },
  { name: "Lasted", width: "80px", right: true, cell: time },
  { name: "Created", width: "104px", phone: "72px", right: true, cell: (run) => <Age time={run.createdAt} /> },
  { name: "Why", width: "minmax(120px, 1fr)", cell: ({ reason }) => (reason === DELETED ? DELETED_WORDS : reasonWords(reason)) },
];

function time(run: RecordedRun): string {
  const seconds = lasted(run);
  return seconds === null ? "" : duration(seconds);
}
