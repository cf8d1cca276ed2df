/** Signing in: by a link of the command line, or at the provider of the server. */
import { client, contentOf, Refused, refusalFrom } from "./client";
import { repeated } from "./steady";

const LINK = "#sign-in=";
/** The beginning of paths at which the server leads to programs. */
export const PROGRAMS = "/proxy/";

/** Whether the address contains the code of a link. */
export function hasLink(): boolean {
  return window.location.hash.startsWith(LINK);
}

/** If the address contains the code of a link, begin the session and take the code out of the address. Return a message if the link was refused. */
export async function useLink(): Promise<string> {
  if (!hasLink()) return "";
  const [code = "", to = ""] = window.location.hash.slice(LINK.length).split("&to=");
  const address = window.location.href;
  window.history.replaceState(null, "", window.location.pathname + window.location.search);
  // If the server used the code and its answer was lost, the repeated request is refused, but the session is there.
  const answer = await repeated(() => fetch("/sign-in/link", { method: "POST", headers: { "Kajitori-Link": code } })).catch(() => null);
  if (!answer) {
    window.history.replaceState(null, "", address); // for another try
    return "The server does not answer. Load this page again.";
  }
  if (answer.ok && to) openProgram(decodeURIComponent(to));
  if (answer.ok) return "";
  const refusal = await refusalFrom(answer);
  return [refusal.message, refusal.hint].filter(Boolean).join("; ");
}

/** Leave this page for a program of a run: the server leads to the program's own origin. */
function openProgram(path: string): void {
  if (path.startsWith(PROGRAMS)) window.location.replace(path);
}

/** Return the person who is signed in; null if there is none. */
export async function whoAmI() {
  try {
    return contentOf(await client.GET("/v1/whoami"));
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return null;
    throw error;
  }
}

/** Return how people sign in here, and the namespace of runs that name none. */
export async function signInOf() {
  return contentOf(await client.GET("/v1/sign-in"));
}

/** The address that begins a sign-in at the provider and comes back to the present page. */
export function providerAddress(): string {
  return `/sign-in/start?to=${encodeURIComponent(window.location.pathname + window.location.search)}`;
}

export async function signOut(): Promise<void> {
  await repeated(() => fetch("/sign-out", { method: "POST" }));
  window.location.assign("/");
}
