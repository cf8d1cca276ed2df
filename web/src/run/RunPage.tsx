import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Tab from "@mui/material/Tab";
import Tabs from "@mui/material/Tabs";
import Typography from "@mui/material/Typography";
import { useRef, type ReactNode } from "react";
import { useAddress } from "../address/useAddress";
import { PartBoundary } from "../app/Broken";
import { later } from "../app/parts";
import { Problem } from "../app/Problem";
import { AttemptsPanel } from "../attempts/AttemptsPanel";
import { RunEvents } from "../events/RunEvents";
import { withItem } from "../sidepanel/address";
import { LogPanel } from "../logs/LogPanel";
import { MembersPanel } from "../members/MembersPanel";
import { useMayChange, useMayReadLogs } from "../verbs/useMayChange";
import { RunTitle } from "../runs/RunTitle";
import { stateOf } from "../states/states";
import { Age } from "../words/times/Age";
import { sentence } from "../words/sentence";
import { Since } from "../words/times/Since";
import { useTitle } from "../common/useTitle";
import { Actions } from "./Actions";
import { CommandLine } from "./overview/CommandLine";
import { Facts } from "./overview/Facts";
import { Findings } from "./overview/Findings";
import { Note } from "./overview/Note";
import { findingOf, phaseOf } from "./data/status";
import { useRun } from "./data/useRun";
import { tabNamed, tabsOf, TITLES, type TabName } from "./tabs";
import { When } from "./overview/When";
import { WhyItWaits } from "./WhyItWaits";

const TerminalPanel = later(async () => (await import("../terminal/TerminalPanel")).TerminalPanel);
const Time = later(async () => (await import("../time/Time")).Time);
const ProcessesPanel = later(async () => (await import("../processes/ProcessesPanel")).ProcessesPanel);
const WhyPanel = later(async () => (await import("../why/WhyPanel")).WhyPanel);
const FilesPanel = later(async () => (await import("../files/FilesPanel")).FilesPanel);
const Figures = later(async () => (await import("../figures/Figures")).Figures);

interface Properties {
  namespace: string;
  name: string;
  /** Go away from the run, because the person deletes it. */
  leave: () => void;
  /** Whether it is in a panel, which shows the run's name and state itself. */
  isPart?: boolean;
  /** More to do, in its head. */
  children?: ReactNode;
}

/** One run: what it is, how it goes, its log, members and events. */
export function RunPage({ namespace, name, leave, isPart = false, children }: Properties) {
  const [parameters, changeAddress] = useAddress();
  const uid = parameters.get("uid") ?? "";
  const run = useRun(namespace, name, uid);
  const mayEnter = useMayChange()(namespace);
  const usual: TabName = useMayReadLogs()(namespace) ? "log" : "figures";
  const head = useRef<HTMLDivElement>(null);
  const rank = numberIn(parameters, "rank");
  const inside = numberIn(parameters, "inside");
  const isWaiting = !!run.data && !run.data.isRemoved && phaseOf(run.data) === "Queued";
  // Addresses without a tab are those of the log; that of a waiting run alone begins with why it waits.
  const first: TabName = isWaiting && !parameters.has("rank") && !parameters.has("logs") ? "waits" : usual;
  const go = (shown: Readonly<Record<string, string>>) => changeAddress((newest) => withItem(newest, { ...shown, ...(uid && { uid }) }), true);
  const show = (next: TabName, ofRank: number | null = rank) =>
    go({ ...(next === usual && !isWaiting ? {} : { tab: next }), ...(ofRank === null ? {} : { rank: `${ofRank}` }) });
  const showWhy = () => {
    show("stuck");
    head.current?.scrollIntoView();
  };

  useTitle(run.data ? `${run.data.title}: ${stateOf(phaseOf(run.data), findingOf(run.data)).word}` : name);

  if (run.error && !run.data) return <Problem error={run.error} retry={() => void run.refetch()} />;
  if (!run.data) return <Skeleton variant="rectangular" height={160} />;
  const view = run.data;
  const isRunning = !view.isRemoved && phaseOf(view) === "Running";
  const isOffered: Partial<Record<TabName, boolean>> = {
    waits: isWaiting,
    log: usual === "log",
    stuck: !isWaiting || !!view.status.attempts, // whether a run is stuck is no question before its first start
    terminal: mayEnter,
    processes: mayEnter && isRunning,
    files: mayEnter && (isRunning || !!view.spec.checkpoint?.path),
  };
  const tabs = tabsOf(isOffered, view.isRemoved);
  const tab = tabNamed(parameters.get("tab"), tabs) ?? first;
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", columnGap: 4, rowGap: 2, mb: 3 }}>
        {!isPart && <RunTitle title={view.title} phase={phaseOf(view)} finding={findingOf(view)} />}
        <Since currentAt={run.dataUpdatedAt} error={run.error} />
        <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 2 }}>
          <Actions run={view} leave={leave} />
          {children}
        </Box>
      </Box>
      {view.isRemoved && (
        <Typography color="textSecondary" sx={{ mb: 3 }}>
          Removed from the cluster {view.removedAt && <Age time={view.removedAt} />}. This is what history keeps of it; a copy of it can be started.
        </Typography>
      )}
      {view.status.message && (
        <Typography dir="auto" sx={{ mb: 3, textAlign: "left" }}>
          {sentence(view.status.message)}
        </Typography>
      )}
      <When run={view} />
      <Findings run={view} showWhy={showWhy} />
      <Facts run={view} />
      <Note key={`note ${view.uid}`} run={view} />
      <Box sx={{ my: 4 }}>
        <CommandLine run={view} />
      </Box>
      <Tabs ref={head} value={tab} onChange={(_, next: TabName) => show(next)} variant="scrollable" scrollButtons="auto" sx={{ mb: 3, scrollMarginTop: 64 }}>
        {tabs.map((known) => (
          <Tab key={known} value={known} label={TITLES[known]} sx={{ minWidth: 72, px: 3 }} />
        ))}
      </Tabs>
      {tab === "waits" && <WhyItWaits run={view} />}
      {tab === "log" && <LogPanel key={view.uid} run={view} rank={rank ?? 0} />}
      <PartBoundary key={tab} fallback={<Skeleton variant="rectangular" height={320} />}>
        {tab === "figures" && <Figures run={view} rank={rank} isRemoved={view.isRemoved} />}
        {tab === "time" && <Time run={view} />}
        {tab === "stuck" && (
          <WhyPanel key={view.uid} run={view} attempt={numberIn(parameters, "attempt")} choose={(attempt) => go({ tab, ...(attempt !== null && { attempt: `${attempt}` }) })} />
        )}
        {tab === "files" && (
          <FilesPanel
            run={view}
            path={parameters.get("path") ?? ""}
            open={(path) => go({ tab, ...(inside === null ? {} : { inside: `${inside}` }), ...(path && { path }) })}
            inside={inside}
            enter={(chosen) => go({ tab, ...(chosen === null ? {} : { inside: `${chosen}` }) })}
          />
        )}
        {tab === "processes" && <ProcessesPanel key={view.uid} run={view} rank={rank ?? 0} chooseRank={(chosen) => show("processes", chosen)} />}
        {tab === "terminal" && (
          <TerminalPanel run={view} rank={rank ?? 0} chooseRank={(chosen) => show("terminal", chosen)} />
        )}
      </PartBoundary>
      {tab === "attempts" && <AttemptsPanel run={view} />}
      {tab === "members" && <MembersPanel run={view} rank={rank} chooseRank={(chosen) => show("members", chosen)} open={show} />}
      {tab === "events" && <RunEvents run={view} />}
    </>
  );
}

/** Return the rank or attempt in an address; null if it names none. */
function numberIn(parameters: URLSearchParams, name: "rank" | "attempt" | "inside"): number | null {
  const text = parameters.get(name);
  return text !== null && /^\d{1,5}$/.test(text) ? Number(text) : null;
}
