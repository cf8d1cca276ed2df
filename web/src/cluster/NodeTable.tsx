import { useMemo } from "react";
import { useNavigate } from "react-router";
import { ordered, type Order } from "../table/sorting";
import { useInPlace } from "../table/useInPlace";
import { useRowKeys } from "../table/useRowKeys";
import { VirtualTable, type Column } from "../common/VirtualTable";
import { compareNames } from "./names";
import { SORT_KEYS } from "./nodeColumns";
import { told } from "./map/NodeMap";
import type { NodeRow } from "./useNodes";

interface Properties {
  nodes: readonly NodeRow[];
  columns: readonly Column<NodeRow>[];
  order: Order | null;
  sort: (order: Order | null) => void;
  addressOf: (name: string) => string;
  search: () => void;
}

const nameOf = ({ name }: NodeRow) => name;

/** The same as the map, as a table. */
export function NodeTable({ nodes, columns, order, sort, addressOf, search }: Properties) {
  const navigate = useNavigate();
  const sorted = useMemo(() => ordered([...nodes].sort((a, b) => compareNames(a.name, b.name)), order, SORT_KEYS), [nodes, order]);
  const { rows, setHovered } = useInPlace(sorted, nameOf, `${order?.by} ${order?.descending} ${nodes.length}`);
  const current = useRowKeys(rows, nameOf, { open: ({ name }) => void navigate(addressOf(name)), search });
  return (
    <VirtualTable
      label="Nodes"
      columns={columns}
      items={rows}
      minWidth={960}
      keyOf={nameOf}
      addressOf={({ name }) => addressOf(name)}
      current={current}
      nameOf={(node) => `${node.name}: ${told(node)}`}
      opensOnClick
      order={order}
      sort={sort}
      onHover={setHovered}
    />
  );
}
