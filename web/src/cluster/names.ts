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

interface Range {
  before: string;
  after: string;
  from: string;
  to: string;
  count: number;
}

/** Return a compact list in natural order, cut to about `most` characters: "gpu-[00001-00032,00161-00176] and 5,952 more". */
export function briefly(list: string, most = 80): string {
  if (list.length <= most) return list;
  const names = [...new Set(expanded(list.replace(/\*\d+(?=,|$)/g, "")))].sort(compareNames);
  const ranges = rangesOf(names);
  let shown = 1;
  while (shown < ranges.length && joined(ranges.slice(0, shown + 1)).length <= most) shown++;
  const left = names.length - ranges.slice(0, shown).reduce((sum, { count }) => sum + count, 0);
  return `${joined(ranges.slice(0, shown))}${left ? ` and ${left.toLocaleString("en")} more` : ""}`;
}

/** Return sorted names as ranges of consecutive numbers. */
function rangesOf(names: readonly string[]): Range[] {
  const ranges: Range[] = [];
  for (const name of names) {
    const [, before = name, number = "", after = ""] = /^(.*?)(\d+)(\D*)$/.exec(name) ?? [];
    const last = ranges.at(-1);
    const follows = last && number && last.before === before && last.after === after && last.to.length === number.length && Number(last.to) + 1 === Number(number);
    if (follows) Object.assign(last, { to: number, count: last.count + 1 });
    else ranges.push({ before, after, from: number, to: number, count: 1 });
  }
  return ranges;
}

/** Return ranges as a compact list: those of equal names share their brackets. */
function joined(ranges: readonly Range[]): string {
  const groups: { before: string; after: string; numbers: string[] }[] = [];
  for (const { before, after, from, to } of ranges) {
    const numbers = from === to ? from : `${from}-${to}`;
    const last = groups.at(-1);
    if (last && last.before === before && last.after === after && from) last.numbers.push(numbers);
    else groups.push({ before, after, numbers: [numbers] });
  }
  return groups
    .map(({ before, after, numbers }) => (/^\d*$/.test(numbers.join()) ? `${before}${numbers.join()}${after}` : `${before}[${numbers.join()}]${after}`))
    .join(",");
}

/** Return the parts between commas outside of brackets. */
function split(list: string): string[] {
  return list.split(/,(?![^[]*\])/).map((part) => part.trim());
}
