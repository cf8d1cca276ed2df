import { useMemo } from "react";
import { Link } from "react-router";
import { VirtualTable, type Column } from "../common/VirtualTable";
import { addressOf, amountOf, BY, hoursInColumn, MEASURES, measuresOf, money, nameOf, share, tableRows, type By, type Measure, type Question, type Usage, type UsageRow } from "./usage";

/** All numbers of the usage, the largest first by the measure of the bars or the newest day or hour first, and each row's share of that. */
export function UsageTable({ usage, question, measure }: { usage: Usage; question: Question; measure: Measure }) {
  const columns = useMemo(() => columnsOf(usage, question, measure), [usage, question, measure]);
  const rows = useMemo(() => tableRows(usage, measure), [usage, measure]);
  return (
    <VirtualTable
      label="Usage"
      columns={columns}
      items={rows}
      minWidth={560}
      keyOf={(row) => row.key}
      addressOf={(row) => addressOf(question, row.key)}
    />
  );
}

function columnsOf(usage: Usage, question: Question, measure: Measure): Column<UsageRow>[] {
  const { by, total, currency } = usage;
  const measures = measuresOf(usage);
  const amounts: Column<UsageRow>[] = [
    { name: "GPU-hours", width: "104px", right: true, cell: (row) => hoursInColumn(row.gpuSeconds) },
    { name: "Share", width: "88px", phone: "80px", right: true, cell: (row) => share(amountOf(row, measure), amountOf(total, measure)) },
    { name: "Core-hours", width: "104px", right: true, cell: (row) => hoursInColumn(row.coreSeconds) },
    { name: "GiB-hours", width: "104px", right: true, cell: (row) => hoursInColumn(row.memoryGibSeconds) },
    { name: `Cost${currency && `, ${currency}`}`, width: "112px", right: true, cell: (row) => money(row.cost, "") },
  ];
  const shown = amounts.filter(
    ({ name }) => (measures.includes("gpu") || name !== "GPU-hours") && (measures.includes("cost") || !name.startsWith("Cost")),
  );
  const name = { name: BY.get(by as By)?.word ?? by, width: "minmax(160px, 1fr)", phone: "minmax(0, 1fr)" };
  return [
    { ...name, cell: (row) => <Name name={nameOf(by, row.key)} address={by === question.by ? addressOf(question, row.key) : ""} /> },
    ...shown.map((column) => (column.name.startsWith(MEASURES[measure].word) ? { ...column, phone: "88px" } : column)),
  ];
}

function Name({ name, address }: { name: string; address: string }) {
  return <span title={name}>{address ? <Link to={address}>{name}</Link> : name}</span>;
}
