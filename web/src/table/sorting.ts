/** The order of a table, in the words of the Web API's parameter `sort`: `gpus`, or `-gpus` for the largest first. */

export interface Order {
  by: string;
  descending: boolean;
}

/** Values by which rows are ordered; null for a value that is not known. */
export type SortKeys<T> = Readonly<Record<string, (item: T) => string | number | null>>;

/** Return the order in an address; null for none that is known. */
export function orderOf<T>(text: string | null, keys: SortKeys<T>): Order | null {
  const by = text?.replace(/^-/, "") ?? "";
  return Object.hasOwn(keys, by) ? { by, descending: text !== by } : null;
}

/** Return the text of an order, as an address and the Web API have it; empty for none. */
export function orderText(order: Order | null): string {
  return order ? `${order.descending ? "-" : ""}${order.by}` : "";
}

/** Return the order after a click on a header: first its own direction, then the other one, then none. */
export function nextOrder(order: Order | null, by: string, descendingFirst: boolean): Order | null {
  if (order?.by !== by) return { by, descending: descendingFirst };
  return order.descending === descendingFirst ? { by, descending: !descendingFirst } : null;
}

/** Return the items in an order. Equal ones keep their place, and those whose value is not known come last. */
export function ordered<T>(items: readonly T[], order: Order | null, keys: SortKeys<T>): readonly T[] {
  const keyOf = order && keys[order.by];
  if (!order || !keyOf) return items;
  const sign = order.descending ? -1 : 1;
  const keyed = items.map((item) => [keyOf(item), item] as const);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return a < b ? -sign : a > b ? sign : 0;
  });
  return keyed.map(([, item]) => item);
}
