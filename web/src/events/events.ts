/** Events of all runs of a namespace. */
import type { Schemas } from "../api/client";

type Event = Schemas["EventView"];

/** The choice that the address holds. */
export interface EventChoice {
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

/** Whether an event fits the choice: each word of its text occurs. */
export function fits(event: Event, { text, warnings }: EventChoice): boolean {
  if (warnings && event.type !== "Warning") return false;
  const said = `${event.object} ${event.reason} ${event.message}`.toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => said.includes(word));
}
