import { useMemo } from "react";
import { Link } from "react-router";
import { VirtualTable, type Column } from "../words/VirtualTable";
import { addressOf, amountOf, BY, hours, measuresOf, money, nameOf, share, type By, type Usage, type UsageRow } from "./usage";

/** All numbers of the usage, the largest first. */
export function UsageTable({ usage }: { usage: Usage }) {
  const columns = useMemo(() => columnsOf(usage), [usage]);
  return (
    <VirtualTable
      label="Usage"
      columns={columns}
      items={usage.items}
      minWidth={560}
      keyOf={(row) => row.key}
      addressOf={(row) => addressOf(usage.by, row.key)}
    />
  );
}

function columnsOf(usage: Usage): Column<UsageRow>[] {
  const { by, total, currency } = usage;
  const measures = measuresOf(usage);
  const first = measures[0] ?? "core";
  const amounts: Column<UsageRow>[] = [
    { name: "GPU-hours", width: "104px", right: true, cell: (row) => hours(row.gpuSeconds) },
    { name: "Share", width: "88px", phone: "80px", right: true, cell: (row) => share(amountOf(row, first), amountOf(total, first)) },
    { name: "Core-hours", width: "104px", right: true, cell: (row) => hours(row.coreSeconds) },
    { name: "GiB-hours", width: "104px", right: true, cell: (row) => hours(row.memoryGibSeconds) },
    { name: `Cost${currency && `, ${currency}`}`, width: "112px", right: true, cell: (row) => money(row.cost, "") },
  ];
  const title = { gpu: "GPU-hours", core: "Core-hours", cost: "Cost" }[first];
  const shown = amounts.filter(
    ({ name }) => (measures.includes("gpu") || name !== "GPU-hours") && (measures.includes("cost") || !name.startsWith("Cost")),
  );
  const name = { name: BY.get(by as By)?.word ?? by, width: "minmax(160px, 1fr)", phone: "minmax(0, 1fr)" };
  return [
    { ...name, cell: (row) => <Name by={by} row={row} /> },
    ...shown.map((column) => (column.name === title ? { ...column, phone: "88px" } : column)),
  ];
}

function Name({ by, row }: { by: string; row: UsageRow }) {
  const [name, address] = [nameOf(by, row.key), addressOf(by, row.key)];
  return <span title={name}>{address ? <Link to={address}>{name}</Link> : name}</span>;
}
