/** The columns of a table that a person wants to see. */

export const MOST_COLUMNS = 8;

interface Named {
  name: string;
  /** Whether it is shown only to those who choose it. */
  isExtra?: boolean;
}

/** Return the columns that were chosen, in the table's order. `stored` is the choice as a list of names in JSON; without a usable one the usual columns are returned. */
export function chosenColumns<C extends Named>(columns: readonly C[], stored: string | null): C[] {
  const names = new Set(namesIn(stored));
  const chosen = columns.filter(({ name }) => names.has(name));
  return chosen.length ? chosen : columns.filter(({ isExtra }) => !isExtra).slice(0, MOST_COLUMNS);
}

function namesIn(stored: string | null): unknown[] {
  try {
    const found: unknown = JSON.parse(stored ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}
