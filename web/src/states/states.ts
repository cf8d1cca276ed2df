/** Words, shapes and colours of a run's states, one table for all pages. */
import type { Phase, Schemas } from "../api/client";

export type Shape = "hollow" | "half" | "full" | "again" | "check" | "cross" | "square" | "pause";

export interface State {
  word: string;
  shape: Shape;
  /** Colours with a contrast of at least 4.5:1 on the page's backgrounds. */
  light: string;
  dark: string;
}

export const STATES: Record<Phase, State> = {
  Queued: { word: "Queued", shape: "hollow", light: "#4a6382", dark: "#9db4d0" },
  Starting: { word: "Starting", shape: "half", light: "#1a5fb4", dark: "#84b6f4" },
  Running: { word: "Running", shape: "full", light: "#0b6e69", dark: "#5cc9c1" },
  Restarting: { word: "Restarting", shape: "again", light: "#8a5200", dark: "#f0b45c" },
  Succeeded: { word: "Succeeded", shape: "check", light: "#2f6b3a", dark: "#8fcf98" },
  Failed: { word: "Failed", shape: "cross", light: "#b3261e", dark: "#ff8a80" },
  Stopped: { word: "Stopped", shape: "square", light: "#5f6368", dark: "#b0b4b9" },
};

/** A suspicion about a running run. */
export type Finding = Exclude<Schemas["RunTableRow"]["finding"], "">;

/** The replacement for the state of a running run that may be stuck, whose health check fails, or that does not use its GPUs. */
export const FINDINGS: Record<Finding, State> = {
  stuck: { word: "Stuck?", shape: "pause", light: "#a04000", dark: "#ffab70" },
  unhealthy: { word: "Unhealthy", shape: "pause", light: "#a04000", dark: "#ffab70" },
  idle: { word: "Idle", shape: "pause", light: "#a04000", dark: "#ffab70" },
};

/** Return what a run's state is called and how it is drawn. */
export function stateOf(phase: Phase, finding: Finding | "" = ""): State {
  return finding ? FINDINGS[finding] : STATES[phase];
}

/** Phases in which a run does not change any more. */
export const FINAL: ReadonlySet<Phase> = new Set<Phase>(["Succeeded", "Failed", "Stopped"]);
