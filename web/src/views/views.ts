/** Saved views of tables: a name for a filter, an order and columns. */

/** Tables with saved views, and the addresses of their pages. */
export const TABLES = { runs: "/runs", nodes: "/cluster", history: "/history" } as const;
export type Table = keyof typeof TABLES;

export interface View {
  name: string;
  /** The parameters of the page's address. */
  parameters: string;
  /** The chosen columns as the browser remembers them; null for the usual ones. */
  columns: string | null;
}

export const MOST_LETTERS = 60;

/** Return the key under which this browser remembers the views of a table. */
export function viewsKey(table: Table): string {
  return `kajitori-views-${table}`;
}

/** Return the views in a stored text; what makes no sense is left out. */
export function viewsIn(stored: string | null): View[] {
  try {
    const found: unknown = JSON.parse(stored ?? "[]");
    return Array.isArray(found) ? found.filter(isView) : [];
  } catch {
    return [];
  }
}

function isView(found: unknown): found is View {
  if (typeof found !== "object" || found === null) return false;
  const { name, parameters, columns } = found as Record<string, unknown>;
  return typeof name === "string" && name !== "" && typeof parameters === "string" && (columns === null || typeof columns === "string");
}

/** Return the views with another one, which replaces one of its name; by name. */
export function withView(views: readonly View[], view: View): View[] {
  return [...views.filter(({ name }) => name !== view.name), view].sort((a, b) => a.name.localeCompare(b.name));
}

/** Return the views after one of them got another name. One that has this name already is not replaced. */
export function renamed(views: readonly View[], name: string, next: string): View[] {
  const view = views.find((each) => each.name === name);
  const wanted = next.trim();
  if (!view || !wanted || views.some((each) => each.name === wanted)) return [...views];
  return withView(without(views, name), { ...view, name: wanted });
}

/** Return the views without the one of this name. */
export function without(views: readonly View[], name: string): View[] {
  return views.filter((each) => each.name !== name);
}

/** Return the address of a view. */
export function addressOf(table: Table, { parameters }: View): string {
  return parameters ? `${TABLES[table]}?${parameters}` : TABLES[table];
}
