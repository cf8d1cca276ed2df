import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { useMemo, useState } from "react";
import type { Run } from "../api/client";
import { Problem } from "../app/Problem";
import { KindMark } from "../cluster/map/KindMark";
import { membersOf } from "../run/data/status";
import { useMayChange, useMayReadLogs } from "../verbs/useMayChange";
import { ORDERS, type Order } from "./grid";
import { allRanks, kindOf, KINDS, told } from "./kinds";
import { MemberMap } from "./MemberMap";
import { MemberTable } from "./MemberTable";
import { Ports } from "./Ports";
import { useMembers } from "./useMembers";

/** Up to this many members, the table says more than the map. */
const FEW = 16;

const WORDS = { log: "Log", figures: "Figures", terminal: "Terminal" } as const;
type Where = keyof typeof WORDS;

interface Properties {
  run: Run;
  /** The chosen rank; null if none is. */
  rank: number | null;
  chooseRank: (rank: number) => void;
  open: (where: Where, rank: number) => void;
}

/** The members of a run: a map of all ranks, or a table. A click chooses the rank for its log, figures and terminal. */
export function MembersPanel({ run, rank, chooseRank, open }: Properties) {
  const members = useMembers(run);
  const mayEnter = useMayChange()(run.namespace);
  const mayReadLogs = useMayReadLogs()(run.namespace);
  const places: Where[] = [...(mayReadLogs ? (["log"] as const) : []), "figures", ...(mayEnter ? (["terminal"] as const) : [])];
  const [order, setOrder] = useState<Order>("rank");
  const [chosenView, setView] = useState<"map" | "table" | null>(null);
  const [marked, setMarked] = useState<string | null>(null);
  const isSweep = !!run.spec.array;
  const total = membersOf(run).total;
  const placed = useMemo(() => allRanks(members.data ?? [], isSweep ? null : total), [members.data, isSweep, total]);
  if (members.error && !members.data) return <Problem error={members.error} retry={() => void members.refetch()} />;
  if (!members.data) return null;
  if (!placed.length) return <Typography color="textSecondary">No member exists now.</Typography>;
  const view = chosenView ?? (placed.length > FEW ? "map" : "table");
  const counts = new Map<string, number>();
  for (const each of placed) counts.set(kindOf(each).key, (counts.get(kindOf(each).key) ?? 0) + 1);
  const shown = marked ? placed.filter((each) => kindOf(each).key === marked) : placed;
  const selected = placed.find((each) => each.rank === rank);
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <ToggleButtonGroup exclusive size="small" value={view} onChange={(_, next: "map" | "table" | null) => next && setView(next)} aria-label="View">
          <ToggleButton value="map">Map</ToggleButton>
          <ToggleButton value="table">Table</ToggleButton>
        </ToggleButtonGroup>
        {view === "map" && (
          <TextField select size="small" label="Order" value={order} onChange={(event) => setOrder(event.target.value as Order)} sx={{ width: 104 }}>
            {Object.entries(ORDERS).map(([value, word]) => (
              <MenuItem key={value} value={value}>
                {word}
              </MenuItem>
            ))}
          </TextField>
        )}
        {Object.values(KINDS).map((kind) => {
          const count = counts.get(kind.key);
          return count ? (
            <Button
              key={kind.key}
              size="small"
              color="inherit"
              variant={marked === kind.key ? "outlined" : "text"}
              aria-pressed={marked === kind.key}
              startIcon={<KindMark kind={kind} />}
              onClick={() => setMarked(marked === kind.key ? null : kind.key)}
            >
              {kind.word} {count.toLocaleString()}
            </Button>
          ) : null;
        })}
      </Box>
      {view === "map" ? (
        <MemberMap placed={placed} order={order} marked={marked} selected={rank} select={chooseRank} />
      ) : (
        <MemberTable placed={shown} showLog={mayReadLogs ? (each) => open("log", each) : null} />
      )}
      {view === "map" && (
        <Box role="region" aria-label="Chosen member" sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mt: 3, minHeight: 40, position: "sticky", bottom: 0, bgcolor: "background.default", py: 1 }}>
          {selected ? (
            <>
              <strong>Rank {selected.rank}</strong>
              <Box sx={{ minWidth: 0, overflowWrap: "anywhere" }}>{told(selected)}</Box>
              {places.map((where) => (
                <Button key={where} size="small" variant="outlined" onClick={() => open(where, selected.rank)}>
                  {WORDS[where]}
                </Button>
              ))}
            </>
          ) : (
            <Typography color="textSecondary">Choose a member for its {listed(places)}.</Typography>
          )}
        </Box>
      )}
      {mayEnter && <Ports run={run} members={members.data} />}
    </>
  );
}

/** Return words as a list in a sentence: "log, figures and terminal". */
function listed(words: readonly string[]): string {
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words.join();
}
