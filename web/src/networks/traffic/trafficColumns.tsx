import Box from "@mui/material/Box";
import { bytes } from "../../words/amounts";
import type { Column } from "../../common/VirtualTable";
import { flowOf, type Group, type TrafficRow } from "./traffic";

const NAMES: Record<Group, string> = { run: "Run", user: "Person", namespace: "Team", node: "Node" };

/** Return the columns of the table of traffic: how fast and how much with one class of addresses, then the others in words. */
export function trafficColumns(by: Group, shown: string, rows: readonly TrafficRow[]): Column<TrafficRow>[] {
  const fastest = Math.max(1, ...rows.map((row) => speedOf(row, shown)));
  const amount = (size: number) => (size ? bytes(size) : "");
  const rate = (size: number) => (size ? `${bytes(size)}/s` : "");
  const who: Column<TrafficRow>[] = [
    { name: "Team", width: "minmax(80px, 1fr)", cell: ({ namespace }) => namespace ?? "" },
    { name: "Person", width: "minmax(80px, 1fr)", cell: ({ user }) => user ?? "" },
  ];
  return [
    { name: NAMES[by], width: "minmax(140px, 2fr)", phone: "minmax(0, 1fr)", isLink: true, cell: ({ name }) => name },
    ...(by === "run" ? who : []),
    { name: "Now", width: "72px", cell: (row) => <Bar share={speedOf(row, shown) / fastest} /> },
    { name: "Sends", width: "96px", right: true, cell: (row) => rate(flowOf(row, shown).sentPerSecond) },
    { name: "Receives", width: "96px", right: true, cell: (row) => rate(flowOf(row, shown).receivedPerSecond) },
    { name: "Sent", width: "88px", phone: "80px", right: true, cell: (row) => amount(flowOf(row, shown).sent) },
    { name: "Received", width: "88px", phone: "80px", right: true, cell: (row) => amount(flowOf(row, shown).received) },
    { name: "With others", width: "minmax(120px, 2fr)", cell: (row) => others(row, shown) },
  ];
}

function speedOf(row: TrafficRow, name: string): number {
  const { sentPerSecond, receivedPerSecond } = flowOf(row, name);
  return sentPerSecond + receivedPerSecond;
}

/** Say how much went to and from all other classes of addresses. */
function others(row: TrafficRow, shown: string): string {
  const told = row.classes.filter(({ name }) => name !== shown).map(({ name, sent, received }) => `${name} ${bytes(sent.bytes + received.bytes)}`);
  return told.join(", ");
}

function Bar({ share }: { share: number }) {
  return <Box component="span" aria-hidden="true" sx={{ display: "block", height: 8, borderRadius: 1, bgcolor: "primary.main" }} style={{ width: `${Math.round(100 * share)}%` }} />;
}
