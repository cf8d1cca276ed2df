import Box from "@mui/material/Box";
import { StateMark } from "../../states/StateMark";
import type { SortKeys } from "../../table/sorting";
import { Age } from "../../words/times/Age";
import { gpusWords } from "../../words/amounts";
import { exact } from "../../words/times/times";
import type { Column } from "../../common/VirtualTable";
import type { QueueRow } from "../useQueue";
import { NOW, until } from "../words";

const LAST = "~";

/** Values by which the table of the queue is ordered. Times that are not known come last. */
export const SORT_KEYS: SortKeys<QueueRow> = {
  place: ({ position }) => position || Infinity,
  run: ({ name }) => name,
  team: ({ namespace }) => namespace,
  owner: ({ owner }) => owner,
  gpus: ({ gpus }) => gpus,
  start: ({ startsAt }) => startsAt || LAST,
  end: ({ endsAt }) => endsAt || LAST,
};

/** Return waiting runs in the order of the queue, then running ones by their expected end. */
export function inQueueOrder(runs: readonly QueueRow[]): QueueRow[] {
  const keyed = runs.map((run) => ({ run, end: run.endsAt || LAST }));
  keyed.sort((a, b) => Number(a.run.state === "running") - Number(b.run.state === "running") || a.run.position - b.run.position || (a.end < b.end ? -1 : Number(a.end > b.end)));
  return keyed.map(({ run }) => run);
}

/** Return the columns of the table; `now` is in milliseconds. */
export function columnsOf(now: number): Column<QueueRow>[] {
  return [
    { name: "State, place", width: "120px", sort: "place", cell: (run) => <StateAndPlace {...run} /> },
    { name: "Run", width: "minmax(160px, 3fr)", phone: "minmax(0, 1fr)", isLink: true, sort: "run", cell: ({ name }) => name },
    { name: "Team", width: "minmax(80px, 1fr)", sort: "team", cell: ({ namespace }) => namespace },
    { name: "Owner", width: "minmax(80px, 1fr)", sort: "owner", cell: ({ owner }) => owner },
    { name: "GPUs", width: "96px", right: true, sort: "gpus", descending: true, cell: ({ gpus, gpuType }) => gpusWords(gpus, gpuType) },
    { name: "Start", width: "120px", phone: "104px", right: true, sort: "start", cell: (run) => startCell(run, now) },
    { name: "End", width: "200px", phone: "104px", right: true, sort: "end", cell: (run) => endCell(run, now) },
    { name: "Nodes", width: "minmax(120px, 2fr)", cell: ({ state, nodes }) => (nodes && state !== "running" ? `reserved: ${nodes}` : nodes) },
  ];
}

function StateAndPlace({ state, position, queuedAt }: QueueRow) {
  if (state === "running") return <StateMark phase="Running" />;
  return (
    <Box component="span" title={queuedAt && `waits since ${exact(queuedAt)}`} sx={{ display: "flex", gap: 2 }}>
      <StateMark phase="Queued" />
      {position}
    </Box>
  );
}

/** When a run started, or how far ahead its expected start is. */
function startCell({ state, startsAt }: QueueRow, now: number) {
  if (state === "running") return <Age time={startsAt} />;
  return startsAt ? <span title={exact(startsAt)}>{inWords(startsAt, now)}</span> : "not known";
}

/** How far ahead the expected end is: the later one, and the earlier one before it if there are two. */
function endCell({ endsAt, endsAtEarliest, expectedSeconds }: QueueRow, now: number) {
  if (!endsAt) return expectedSeconds ? "not known" : "no end";
  const early = endsAtEarliest && until(endsAtEarliest, now);
  const isOne = !early || early === until(endsAt, now);
  if (isOne) return <span title={exact(endsAt)}>{inWords(endsAt, now)}</span>;
  return <span title={`${exact(endsAtEarliest)} to ${exact(endsAt)}`}>{`in ${early} to ${until(endsAt, now)}`}</span>;
}

function inWords(time: string, now: number): string {
  const left = until(time, now);
  return left === NOW ? NOW : `in ${left}`;
}
