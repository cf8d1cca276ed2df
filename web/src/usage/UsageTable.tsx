import { useMemo } from "react";
import { Link } from "react-router";
import { VirtualTable, type Column } from "../words/VirtualTable";
import { addressOf, amountOf, BY, hours, measuresOf, money, nameOf, share, type By, type Question, type Usage, type UsageRow } from "./usage";

/** All numbers of the usage, the largest first. */
export function UsageTable({ usage, question }: { usage: Usage; question: Question }) {
  const columns = useMemo(() => columnsOf(usage, question), [usage, question]);
  return (
    <VirtualTable
      label="Usage"
      columns={columns}
      items={usage.items}
      minWidth={560}
      keyOf={(row) => row.key}
      addressOf={(row) => addressOf(question, row.key)}
    />
  );
}

function columnsOf(usage: Usage, question: Question): Column<UsageRow>[] {
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
    { ...name, cell: (row) => <Name name={nameOf(by, row.key)} address={by === question.by ? addressOf(question, row.key) : ""} /> },
    ...shown.map((column) => (column.name === title ? { ...column, phone: "88px" } : column)),
  ];
}

function Name({ name, address }: { name: string; address: string }) {
  return <span title={name}>{address ? <Link to={address}>{name}</Link> : name}</span>;
}
