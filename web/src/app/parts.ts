/** Parts of the page whose code is fetched when they are first shown. */
import { lazy, type ComponentType, type LazyExoticComponent } from "react";
import { repeated } from "../api/steady";

/** The code of a part did not arrive. */
export class NotLoaded extends Error {}

const RELOADED_KEY = "kaji-reloaded-at";
/** A page that was loaded again does not do so by itself within this time: something else is wrong. */
const QUIET_MS = 30_000;

/** Fetch code, again if the connection breaks. Throws a NotLoaded. */
export async function fetched<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await repeated(load);
  } catch (error) {
    throw new NotLoaded(error instanceof Error ? error.message : String(error));
  }
}

/** Return a component whose code is fetched when it is first shown. */
export function later<C extends ComponentType<any>>(load: () => Promise<C>): LazyExoticComponent<C> {
  return lazy(() => fetched(async () => ({ default: await load() })));
}

/** Whether the page may load itself again now: not if it just did. It notes that it does. */
export function mayReload(now = Date.now(), notes: Pick<Storage, "getItem" | "setItem"> = sessionStorage): boolean {
  const last = Number(notes.getItem(RELOADED_KEY) ?? 0);
  if (Math.abs(now - last) < QUIET_MS) return false;
  notes.setItem(RELOADED_KEY, `${now}`);
  return true;
}
