/** The keys of all pages, for the dialog that lists them. */

export interface Keys {
  page: string;
  keys: readonly (readonly [key: string, meaning: string])[];
}

export const KEYS: readonly Keys[] = [
  {
    page: "Every page",
    keys: [
      ["Ctrl K", "Find a run, a node, a person, a team or an action"],
      ["?", "This list"],
      ["Esc", "Close what is open"],
    ],
  },
  {
    page: "Runs, Sweeps",
    keys: [
      ["j, k", "Next run, previous run"],
      ["Enter", "Open the run beside the list; again, as a page"],
      ["x", "Select the run, or take it out of the selection (Runs)"],
      ["Esc", "Close the run beside the list, then select none"],
      ["/", "Filter"],
    ],
  },
  {
    page: "Cluster, Queue",
    keys: [
      ["Arrow keys", "Go through the map"],
      ["Enter", "Open the node or run"],
    ],
  },
  {
    page: "Log of a run",
    keys: [
      ["/", "Search"],
      ["n, N", "Next line found, previous line found"],
    ],
  },
  {
    page: "Figures of a run, Compare runs",
    keys: [
      ["Drag", "Look at a part of a plot closer"],
      ["Double click", "The whole plot again"],
    ],
  },
];

/** Whether a key belongs to what has the focus, or to the browser, and is no shortcut of the page. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  return (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    target.closest("input:not([type=checkbox]), textarea, [contenteditable], [role=menu], [role=dialog], .xterm") !== null ||
    (event.key === "Enter" && target.closest("button, a, summary, [role=combobox], canvas") !== null)
  );
}
