/** The offers of the search for a text: pages, actions on runs, runs, nodes, people and teams. */
import type { Schemas } from "../api/client";
import type { Row } from "../runs/data/rows";
import { compareAddress } from "../compare/address";
import { TABLES, type Table, type View } from "../views/views";
import { applies, BUTTONS, VERB_WORDS, VERBS, type Verb } from "../verbs/verbs";

export interface Page {
  to: string;
  word: string;
}

/** A node that the server found by its name, or by who uses it. */
type FoundNode = Pick<Schemas["NodeTableRow"], "name" | "state" | "holders" | "owner">;

/** The server's results. */
export interface Found {
  runs: readonly Row[];
  nodes: readonly FoundNode[];
  teams: readonly { name: string }[];
}

/** A saved view, and the table that it is of. */
export interface SavedView {
  table: Table;
  view: View;
}

export type Act = { to: string } | { verb: Verb; run: Row } | SavedView;

export interface Command {
  key: string;
  group: "Do" | "Pages" | "Views" | "Runs" | "Nodes" | "People" | "Teams";
  words: string;
  /** A key that distinguishes it from the other offers. */
  hint: string;
  act: Act;
}

export const NOTHING: Found = { runs: [], nodes: [], teams: [] };
const MOST_OF_A_KIND = 8;

/** What the form can start, by the words that ask for it. */
const STARTS: readonly Page[] = [
  { to: "/start?type=run", word: "Start a run" },
  { to: "/start?type=notebook", word: "Start a notebook" },
  { to: "/start?type=sweep", word: "Start a sweep" },
];

/** What can be done with a run from the search. */
type Asked = Verb | "compare";

const ASKED: readonly Asked[] = [...VERBS, "compare"];

/** Return what a text asks for: words to search for, and a verb if it begins with one, such as "stop bert" or "compare bert". */
export function parsed(text: string): { verb: Asked | null; words: string } {
  const words = text.trim().toLowerCase();
  const [first = "", ...rest] = words.split(/\s+/);
  const verb = ASKED.find((known) => known === first) ?? null;
  return verb ? { verb, words: rest.join(" ") } : { verb: null, words };
}

/** Return those results for `asked` that also match the present text, which may be longer by now: Enter must not act on a run that the text does not name. */
export function fitting(found: Found, asked: { verb: Asked | null; words: string }, text: string): Found {
  const { verb, words } = parsed(text);
  if (asked.verb === verb && asked.words === words) return found;
  const fits = ({ name }: { name: string }) => words.split(/\s+/).every((word) => name.toLowerCase().includes(word));
  return { runs: found.runs.filter(fits), nodes: found.nodes.filter(fits), teams: found.teams };
}

/** Return the run whose page is open. */
export function openRun(path: string): { namespace: string; name: string } | null {
  const [, namespace, name] = /^\/runs\/([^/]+)\/([^/]+)$/.exec(path) ?? [];
  return namespace && name ? { namespace: decodeURIComponent(namespace), name: decodeURIComponent(name) } : null;
}

/** Return what is offered, the likeliest first. `here` is the run whose page is open. `mayChange` says whether the person may change runs of a namespace. */
export function commandsOf(text: string, pages: readonly Page[], found: Found, here: Row | null, mayChange: (namespace: string) => boolean, views: readonly SavedView[] = []): Command[] {
  const offered = (verb: Verb, run: Row) => applies(verb, run) && mayChange(run.namespace);
  const { verb, words } = parsed(text);
  if (verb === "compare") {
    const runs = here && !words ? [here] : found.runs.filter(({ uid }) => uid !== here?.uid);
    return runs.slice(0, MOST_OF_A_KIND).map((run) => comparing(run, here));
  }
  if (verb) {
    const runs = here && !words ? [here, ...found.runs.filter(({ uid }) => uid !== here.uid)] : found.runs;
    return runs.filter((run) => offered(verb, run)).slice(0, MOST_OF_A_KIND).map((run) => doing(verb, run));
  }
  const has = (name: string) => words.split(/\s+/).every((word) => name.toLowerCase().includes(word));
  const owners = [...new Set(found.runs.map(({ owner }) => owner))].filter((owner) => words && owner && has(owner));
  return [
    ...(here ? BUTTONS.filter((each) => offered(each, here) && has(`${each} ${here.name}`)).map((each) => doing(each, here)) : []),
    ...STARTS.filter(({ word }) => words && has(word)).map(({ to, word }) => command("Do", word, "", { to })),
    ...(here && has(`compare ${here.name}`) ? [comparing(here, here)] : []),
    ...pages.filter(({ word }) => has(word)).map(({ to, word }) => command("Pages", word, "", { to })),
    ...views.filter(({ view }) => has(view.name)).map((saved) => command("Views", saved.view.name, pages.find(({ to }) => to === TABLES[saved.table])?.word ?? "Ended runs", saved, `${saved.table} ${saved.view.name}`)),
    ...[...found.runs].sort((a, b) => Number(has(b.name)) - Number(has(a.name))).slice(0, MOST_OF_A_KIND).map((run) => command("Runs", run.name, `${run.namespace}, ${run.phase}, ${run.owner}`, { to: addressOf(run) }, run.uid)),
    ...[...found.nodes].sort((a, b) => Number(has(b.name)) - Number(has(a.name))).slice(0, MOST_OF_A_KIND).map(({ name, state, holders, owner }) => command("Nodes", name, [state, !has(name) && ([...holders, owner].find(has) ?? "")].filter(Boolean).join(", "), { to: `/cluster/${encodeURIComponent(name)}` })),
    ...owners.slice(0, MOST_OF_A_KIND).map((owner) => command("People", owner, "their runs", { to: `/runs?whose=all&text=${encodeURIComponent(owner)}` })),
    ...found.teams.filter(({ name }) => words && has(name)).map(({ name }) => command("Teams", name, "its runs", { to: `/runs?whose=all&text=${encodeURIComponent(name)}` })),
  ];
}

/** Compare a run with the one whose page is open; the page asks for another one if there is none. */
function comparing(run: Row, here: Row | null): Command {
  const others = here && here.uid !== run.uid ? [here] : [];
  return command("Do", `Compare ${run.name}`, others.length ? `with ${others[0]?.name}` : `${run.namespace}, ${run.phase}`, { to: compareAddress([...others, run]) }, `${run.uid}compare`);
}

function doing(verb: Verb, run: Row): Command {
  return command("Do", `${VERB_WORDS[verb].ask} ${run.name}`, `${run.namespace}, ${run.phase}`, { verb, run }, run.uid + verb);
}

function command(group: Command["group"], words: string, hint: string, act: Act, key = words): Command {
  return { key: `${group} ${key}`, group, words, hint, act };
}

function addressOf({ namespace, name }: Row): string {
  return `/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}
