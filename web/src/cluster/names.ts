/** Names of nodes: their natural order, and compact lists such as `gpu-[00001-00004,7]`. */

const ORDER = new Intl.Collator("en", { numeric: true });

/** Compare two names so that node-9 comes before node-10. */
export function compareNames(a: string, b: string): number {
  return ORDER.compare(a, b);
}

/** Return a compact list of the nodes of members in words: "vm (4 members)" for "vm*4", "gpu-[1-2] (8 members each)" for "gpu-[1-2]*8". */
export function membersOn(list: string): string {
  return split(list)
    .map((part) => part.replace(/\*(\d+)$/, part.includes("[") ? " ($1 members each)" : " ($1 members)"))
    .join(", ");
}

const MOST = 100_000;

/** Return the names in a compact list. */
export function expanded(list: string): string[] {
  const names: string[] = [];
  for (const part of split(list)) {
    const found = /^(.*?)\[([^\]]*)\](.*)$/.exec(part);
    if (!found) {
      if (part) names.push(part);
      continue;
    }
    const [, before = "", ranges = "", after = ""] = found;
    for (const range of ranges.split(",")) {
      const [from = "", until = from] = range.split("-");
      for (let number = Number(from); number <= Number(until) && names.length < MOST; number++)
        for (const rest of expanded(after) .length ? expanded(after) : [""])
          names.push(`${before}${String(number).padStart(from.length, "0")}${rest}`);
    }
  }
  return names;
}

/** Return the parts between commas outside of brackets. */
function split(list: string): string[] {
  return list.split(/,(?![^[]*\])/).map((part) => part.trim());
}
