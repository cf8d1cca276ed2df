/** Events of all runs, of one team or of all teams that the person may see. */
import type { Schemas } from "../api/client";

type Event = Schemas["EventView"];

/** The choice that the address holds. */
export interface EventChoice {
  /** A namespace; empty for all. */
  team: string;
  text: string;
  /** Only warnings. */
  warnings: boolean;
}

export function eventChoiceOf(parameters: URLSearchParams): EventChoice {
  return { team: parameters.get("team") ?? "", text: parameters.get("text") ?? "", warnings: parameters.get("warnings") === "1" };
}

export function eventParametersOf({ team, text, warnings }: EventChoice): URLSearchParams {
  const parameters = new URLSearchParams();
  if (team) parameters.set("team", team);
  if (text) parameters.set("text", text);
  if (warnings) parameters.set("warnings", "1");
  return parameters;
}

/** Return the name of the run that an event is about, from the name of the run or of its Pod; empty for other objects. */
export function runOf({ object }: Pick<Event, "object">): string {
  const [kind, name = ""] = object.split("/");
  if (kind === "Run") return name;
  return kind === "Pod" ? name.replace(/-\d+-\d+$/, "") : "";
}

/** Return the query of the server's list for a choice. */
export function queryOf({ team, text, warnings }: EventChoice) {
  return { ...(team ? { namespace: team } : { everywhere: true }), ...(text.trim() && { search: text.trim() }), ...(warnings && { warnings }) };
}
