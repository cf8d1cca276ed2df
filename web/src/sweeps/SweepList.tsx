import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { useRef } from "react";
import { useSearchParams } from "react-router";
import type { Item } from "../sidepanel/address";
import { Beside, WHOLE_ITEM } from "../sidepanel/Beside";
import { useRowsBeside } from "../sidepanel/useRowsBeside";
import { Nothing } from "../runs/Nothing";
import { RunBeside } from "../runs/RunBeside";
import type { Row } from "../runs/data/rows";
import { RunListHead, RunListNotices } from "../runs/RunListHead";
import { uidOf } from "../runs/RunTable";
import { StartButton } from "../runs/StartButton";
import { useRunList } from "../runs/data/useRunList";
import { StateMark } from "../states/StateMark";
import { Age } from "../words/times/Age";
import { CopyLine } from "../common/CopyLine";
import { VirtualTable, type Column } from "../common/VirtualTable";
import { BestResult } from "./BestResult";
import { ProgressBar, progressWords } from "./Progress";
import { SweepPage } from "./SweepPage";
import { MEMBER } from "./view";

const COLUMNS: Column<Row>[] = [
  { name: "State", width: "128px", phone: "98px", sort: "phase", cell: ({ phase }) => <StateMark phase={phase} /> },
  { name: "Sweep", width: "minmax(120px, 1.5fr)", phone: "minmax(0, 1fr)", isLink: true, sort: "name", cell: ({ name }) => name },
  { name: "Best so far", width: "minmax(200px, 3fr)", cell: (sweep) => <BestResult sweep={sweep} succeeded={sweep.members.succeeded ?? 0} /> },
  { name: "Progress", width: "120px", phone: "80px", cell: ({ members }) => <ProgressBar counts={countsOf(members)} /> },
  { name: "Members", width: "minmax(200px, 3fr)", sort: "members", descending: true, cell: ({ members }) => progressWords(countsOf(members)) },
  { name: "Owner", width: "minmax(80px, 1fr)", sort: "owner", cell: ({ owner }) => owner },
  { name: "Team", width: "minmax(80px, 1fr)", sort: "namespace", cell: ({ namespace }) => namespace },
  { name: "Age", width: "96px", right: true, sort: "createdAt", descending: true, cell: ({ createdAt }) => <Age time={createdAt} /> },
];

/** The columns while a sweep is open beside the table. */
const BESIDE_COLUMNS: Column<Row>[] = [
  { name: "State", width: "98px", sort: "phase", cell: ({ phase }) => <StateMark phase={phase} /> },
  { name: "Sweep", width: "minmax(0, 1fr)", isLink: true, sort: "name", cell: ({ name }) => name },
  { name: "Progress", width: "96px", sort: "members", descending: true, cell: ({ members }) => <ProgressBar counts={countsOf(members)} /> },
];

/** All sweeps that a person may see, with how far they are and their best results. `opened` is the sweep beside them. */
export function SweepList({ opened }: { opened: Item | null }) {
  const list = useRunList("sweep=true");
  const { filter, live, shown } = list;
  const search = useRef<HTMLInputElement>(null);
  const [parameters] = useSearchParams();
  const keys = { search: () => search.current?.focus(), hasEscape: parameters.has(MEMBER) };
  const beside = useRowsBeside("/sweeps", shown, opened, keys);
  const panel = opened && (
    <RunBeside word="Sweep" run={opened} row={beside.current} close={beside.close} toPage={() => beside.stayPage(opened)}>
      <SweepPage {...opened} isPart />
    </RunBeside>
  );
  return (
    <Beside panel={panel} {...WHOLE_ITEM}>
      <RunListHead title="Sweeps" list={list} search={search} placeholder="Name, owner, team, state …" isNarrow={opened !== null} />
      <RunListNotices list={list} one="sweep" many="sweeps" />
      {live.rows && !shown.length && (
        <Nothing one="sweep" whose={filter.whose} any={live.rows.length > 0} showAll={() => list.change({ whose: "all" })}>
          <FirstSweep />
        </Nothing>
      )}
      <div ref={beside.box}>
        {shown.length > 0 && (
          <VirtualTable
            label="Sweeps"
            columns={opened ? BESIDE_COLUMNS : COLUMNS}
            items={shown}
            minWidth={opened ? 0 : 1080}
            keyOf={uidOf}
            addressOf={beside.addressOf}
            current={beside.current}
            focus={beside.focus}
            nameOf={({ name, phase, members }) => `${name}, ${phase}, ${progressWords(countsOf(members))}`}
            opensOnClick
            order={filter.order}
            sort={(order) => list.change({ order })}
            onHover={list.setHovered}
          />
        )}
      </div>
      {shown.length > 0 && (
        <Box sx={{ mt: 4 }}>
          <CopyLine text={`kaji ps -a ${filter.whose === "mine" ? "" : "--all-users "}--filter sweep=true`} />
        </Box>
      )}
    </Beside>
  );
}

function countsOf({ total = 0, succeeded = 0, failed = 0, running = 0, pending = 0 }: Row["members"]) {
  return { total, succeeded, failed, running, pending };
}

function FirstSweep() {
  return (
    <>
      <Typography gutterBottom>
        A sweep is one run of many members, each with its own number in KAJI_ARRAY_INDEX; what a member writes to the file in KAJI_RESULT is its result here:
      </Typography>
      <CopyLine text={`kaji run --array 0-9%4 python:3.11 python3 -c 'import json, os; i = int(os.environ["KAJI_ARRAY_INDEX"]); json.dump({"lr": 10**-i, "loss": (i - 4)**2}, open(os.environ["KAJI_RESULT"], "w"))'`} wraps />
      <StartButton />
    </>
  );
}
