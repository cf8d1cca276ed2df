import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import { useTheme } from "@mui/material/styles";
import { Link } from "react-router";
import type { Phase } from "../api/client";
import { pageOf } from "../sidepanel/address";
import { lineColours } from "../figures/plot/Plot";
import { StateMark } from "../states/StateMark";
import { Age } from "../words/times/Age";
import { itemOf, type ComparedRun } from "./view";

interface Properties {
  runs: readonly ComparedRun[];
  names: readonly string[];
  /** The runs as the address names them. */
  asked: readonly string[];
  takeOut: (run: string) => void;
}

/** The compared runs, each with the colour of its lines. */
export function ComparedRuns({ runs, names, asked, takeOut }: Properties) {
  const colours = lineColours(useTheme().palette.mode === "dark");
  return (
    <Box component="ul" aria-label="Compared runs" sx={{ listStyle: "none", p: 0, m: 0, mb: 4, display: "grid", gap: 2, gridTemplateColumns: "repeat(auto-fill, minmax(min(100%, 260px), 1fr))" }}>
      {runs.map((run, index) => (
        <Box component="li" key={run.uid} sx={{ borderLeft: 4, borderColor: colours[index], pl: 3, minWidth: 0 }}>
          <Box component={Link} to={pageOf("/runs", itemOf(run))} sx={{ fontWeight: 600, overflowWrap: "anywhere" }}>
            <bdi>{names[index]}</bdi>
          </Box>
          <Box sx={{ display: "flex", flexWrap: "wrap", columnGap: 3, color: "text.secondary" }}>
            <StateMark phase={run.phase as Phase} />
            {run.isRemoved && <span>removed</span>}
            <bdi>{run.owner}</bdi>
            <Age time={run.createdAt} />
          </Box>
          <Button size="small" sx={{ ml: -1 }} onClick={() => takeOut(askedAs(run, asked))} aria-label={`Take out ${names[index]}`}>
            Take out
          </Button>
        </Box>
      ))}
    </Box>
  );
}

/** Return how the address names a run: by its name, the beginning of it, or its UID. */
function askedAs({ namespace, name, uid }: ComparedRun, asked: readonly string[]): string {
  const exact = asked.find((each) => each === `${namespace}/${name}` || each === `${namespace}/${uid}`);
  return exact ?? asked.find((each) => `${namespace}/${name}`.startsWith(each)) ?? "";
}
