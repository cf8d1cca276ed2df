import { useMemo } from "react";
import { useNavigate } from "react-router";
import { ordered, type Order } from "../../table/sorting";
import { useInPlace } from "../../table/useInPlace";
import { useRowKeys } from "../../table/useRowKeys";
import { VirtualTable } from "../../common/VirtualTable";
import type { QueueRow } from "../useQueue";
import { keyOf, told } from "../words";
import { columnsOf, inQueueOrder, SORT_KEYS } from "./queueColumns";

interface Properties {
  runs: readonly QueueRow[];
  now: number;
  /** None: waiting runs in the order of the queue, then running ones by their expected end. */
  order: Order | null;
  sort: (order: Order | null) => void;
  addressOf: (key: string) => string;
  search: () => void;
}

/** The same as the timeline, as a table. */
export function QueueTable({ runs, now, order, sort, addressOf, search }: Properties) {
  const navigate = useNavigate();
  const sorted = useMemo(() => ordered(inQueueOrder(runs), order, SORT_KEYS), [runs, order]);
  const { rows, setHovered } = useInPlace(sorted, keyOf, `${order?.by} ${order?.descending} ${runs.length}`);
  const columns = useMemo(() => columnsOf(now), [now]);
  const open = (run: QueueRow) => addressOf(keyOf(run));
  const current = useRowKeys(rows, keyOf, { open: (run) => void navigate(open(run)), search });
  return (
    <VirtualTable
      label="Queue"
      columns={columns}
      items={rows}
      minWidth={1040}
      keyOf={keyOf}
      addressOf={open}
      current={current}
      nameOf={(run) => `${keyOf(run)}: ${told(run, now)}`}
      opensOnClick
      order={order}
      sort={sort}
      onHover={setHovered}
    />
  );
}
