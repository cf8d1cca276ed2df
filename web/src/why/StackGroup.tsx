import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Chip from "@mui/material/Chip";
import LinearProgress from "@mui/material/LinearProgress";
import Typography from "@mui/material/Typography";
import { useState } from "react";
import type { Run, Schemas } from "../api/client";
import { Problem } from "../app/Problem";
import { briefly, expanded } from "../cluster/names";
import { Age } from "../words/times/Age";
import { CopyLine } from "../common/CopyLine";
import { sentence } from "../words/sentence";
import { markOf, ranksTitle, stackText } from "./stacks";
import { useStacks } from "./useWhy";

interface Properties {
  run: Run;
  group: Schemas["StackGroupView"];
  late: readonly number[];
  /** The attempt of which the group was kept; null: it is of a look at running processes. */
  attempt: number | null;
  /** When the processes were looked at. */
  at: string;
}

/** Ranks at the same place in the program; the whole stack of the first one unfolds. */
export function StackGroup({ run, group, late, attempt, at }: Properties) {
  const [isOpen, setOpen] = useState(false);
  const [first] = group.ranks;
  const mark = markOf(group, late);
  return (
    <Box component="li" sx={{ borderTop: 1, borderColor: "divider", py: 2, overflowWrap: "anywhere" }}>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 2 }}>
        <Typography variant="h3" sx={{ fontSize: 14, fontWeight: 600 }}>
          {ranksTitle(group.ranks)}
        </Typography>
        {mark && <Chip size="small" variant="outlined" color="warning" label={mark} />}
      </Box>
      <Typography>{sentence(group.words)}</Typography>
      {group.ranks.length > 1 && group.nodes && <GroupNodes list={group.nodes} />}
      {first !== undefined && (
        <>
          <Button size="small" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} sx={{ ml: -1 }}>
            {isOpen ? "Hide" : "Show"} the stack of rank {first}
          </Button>
          {isOpen && <Stack run={run} rank={first} attempt={attempt} at={at} />}
        </>
      )}
    </Box>
  );
}

/** The nodes of a group: a short list, which unfolds to all of them. */
function GroupNodes({ list }: { list: string }) {
  const [isWhole, setWhole] = useState(false);
  const brief = briefly(list);
  const count = expanded(list).length;
  return (
    <Typography color="textSecondary">
      {count === 1 ? "On node " : `On ${count.toLocaleString("en")} nodes: `}
      {isWhole ? list : brief}
      {brief !== list && (
        <Button size="small" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)} sx={{ ml: 1, py: 0 }}>
          {isWhole ? "Fewer" : "All nodes"}
        </Button>
      )}
    </Typography>
  );
}

function Stack({ run, rank, attempt, at }: { run: Run; rank: number; attempt: number | null; at: string }) {
  const stacks = useStacks(run, rank, attempt, at);
  if (stacks.error) return <Problem error={stacks.error} retry={() => void stacks.refetch()} />;
  if (!stacks.data) return <LinearProgress aria-label={`Looking at rank ${rank}`} />;
  const [member] = stacks.data.ranks;
  if (!member) return <Typography>{sentence(stacks.data.trouble || "its node did not answer")}</Typography>;
  return (
    <>
      <Typography color="textSecondary">
        On {member.node}, looked at <Age time={member.at} />
      </Typography>
      <CopyLine text={stackText(member)} tall />
    </>
  );
}
