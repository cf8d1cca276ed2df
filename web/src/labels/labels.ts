/** Labels of a run as texts. */

export type Labels = Readonly<Record<string, string>>;

/** Return labels as the command line writes them, by key: "stage=final". */
export function pairsOf(labels: Labels | undefined): string[] {
  return Object.entries(labels ?? {})
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${value}`);
}

/** Return the address of the list of all runs with a label. */
export function addressOf(pair: string): string {
  return `/runs?${new URLSearchParams({ whose: "all", text: pair })}`;
}

/** Return the labels in lines such as "stage=final". A line without = is a key whose value is empty. */
export function labelsIn(text: string): Record<string, string> {
  const lines = text.split("\n").map((line) => line.trim());
  return Object.fromEntries(
    lines.filter(Boolean).map((line) => {
      const [key = "", ...value] = line.split("=");
      return [key.trim(), value.join("=").trim()];
    }),
  );
}

/** Return what has to be asked for so that a run with the labels `before` has those of `after`; null if nothing changes. */
export function changeOf(before: Labels, after: Labels): { set: Record<string, string>; remove: string[] } | null {
  const set = Object.fromEntries(Object.entries(after).filter(([key, value]) => before[key] !== value));
  const remove = Object.keys(before).filter((key) => !(key in after));
  return Object.keys(set).length || remove.length ? { set, remove } : null;
}
