/** The parts of a run's page, as tabs. */

const TABS = ["waits", "log", "figures", "members", "attempts", "files", "events", "time", "stuck", "processes", "terminal"] as const;
export type TabName = (typeof TABS)[number];

export const TITLES: Record<TabName, string> = {
  waits: "Why it waits",
  log: "Log",
  figures: "Figures",
  members: "Members",
  attempts: "Attempts",
  files: "Files",
  events: "Events",
  time: "Time",
  stuck: "Stuck or slow",
  processes: "Processes",
  terminal: "Terminal",
};

/** Earlier names in addresses: people have saved links with them. */
const EARLIER: Readonly<Record<string, TabName>> = { why: "stuck" };

/** The parts that a removed run does not have: members, their events and shells. */
const OF_LIVE_RUNS: ReadonlySet<TabName> = new Set(["members", "events", "processes", "terminal"]);

/** Return the tabs of a run in their order: all that are not refused. */
export function tabsOf(isOffered: Partial<Record<TabName, boolean>>, isRemoved: boolean): TabName[] {
  return TABS.filter((known) => (isOffered[known] ?? true) && !(isRemoved && OF_LIVE_RUNS.has(known)));
}

/** Return the tab that an address names; undefined if it names none of these. */
export function tabNamed(name: string | null, tabs: readonly TabName[]): TabName | undefined {
  const wanted = EARLIER[name ?? ""] ?? name;
  return tabs.find((known) => known === wanted);
}
