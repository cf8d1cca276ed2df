/** Addresses of a list, of one of its items, and of an item beside its list. */

/** The parameters of a list, as one text in the address of one of its items. */
const LIST = "list";

/** Items are addressed by the Web API's names: a run in `/runs` is `/runs/vision/bert`. */
export interface Item {
  namespace: string;
  name: string;
}

/** Return the address of an item's page. */
export function pageOf(list: string, { namespace, name }: Item, parameters = new URLSearchParams()): string {
  return withText(`${list}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, alone(parameters));
}

/** Return the address of an item beside the list that has these parameters. `tab` is what is shown of the item. */
export function besideOf(list: string, item: Item, parameters: URLSearchParams, tab: string | null): string {
  const shown = new URLSearchParams({ [LIST]: `${parameters}` });
  if (tab) shown.set("tab", tab);
  return withText(pageOf(list, item), shown);
}

/** Return the address of a list with these parameters. */
export function listOf(list: string, parameters: URLSearchParams): string {
  return withText(list, parameters);
}

/** Return the parameters of the list beside an item; null if the item has a page of its own. */
export function listBeside(parameters: URLSearchParams): URLSearchParams | null {
  const text = parameters.get(LIST);
  return text === null ? null : new URLSearchParams(text);
}

/** Return the parameters of an item's address with other ones for its list. */
export function withList(parameters: URLSearchParams, list: URLSearchParams): URLSearchParams {
  const next = new URLSearchParams(parameters);
  next.set(LIST, `${list}`);
  return next;
}

/** Return the parameters of an item's address with only these ones for the item; those of the list stay. */
export function withItem(parameters: URLSearchParams, item: Readonly<Record<string, string>>): URLSearchParams {
  const next = new URLSearchParams(item);
  const list = listBeside(parameters);
  return list ? withList(next, list) : next;
}

function alone(parameters: URLSearchParams): URLSearchParams {
  const next = new URLSearchParams(parameters);
  next.delete(LIST);
  return next;
}

function withText(path: string, parameters: URLSearchParams): string {
  return parameters.size ? `${path}?${parameters}` : path;
}
