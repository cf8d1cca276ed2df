/** When a pool of addresses runs out, in words. */
import type { Schemas } from "../../api/client";

export type Forecast = Schemas["AddressForecast"];

const MIN_DAYS = 14;
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });

/** Return the name of a pool. */
export function poolName({ kind, cidr, cluster }: Forecast): string {
  if (kind === "own ranges") return "Pods, in the ranges of all nodes";
  return `${kind === "nodes" ? "Nodes" : "Pods"} of ${cluster}, ${cidr}`;
}

/** Whether the plot of a pool's use shows its capacity, too. Far from it, the line of the use would be flat. */
export function showsCapacity({ history = [], capacity }: Forecast): boolean {
  return Math.max(0, ...history.map(({ used }) => used)) * 10 >= capacity;
}

/** Return when a pool runs out, and how sure that is; what is not known is said. */
export function forecastWords({ state, at, earliest, latest, perDay = 0, unit, daysKnown }: Forecast): string {
  const grows = `It grows by ${perDay.toLocaleString("en", { maximumSignificantDigits: 2 })} ${unit} a day`;
  switch (state) {
    case "full":
      return "It is full.";
    case "runs out": {
      const until = latest ? ` and ${date(latest)}` : " and a time in more than ten years";
      return `${grows} and runs out about ${date(at)}${earliest ? ` (between ${date(earliest)}${until}, with 95 % confidence)` : ""}.`;
    }
    case "far":
      return `${grows}, and lasts for more than ten years.`;
    case "not growing":
      return `Its use did not grow in the last ${daysKnown} days that are known.`;
    case "too little history":
      return `When it runs out is not known yet: ${daysKnown} of ${MIN_DAYS} days are recorded.`;
  }
}

function date(time: string | undefined): string {
  return time ? DATE.format(Date.parse(time)) : "";
}
