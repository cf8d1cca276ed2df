/** A cluster that is planned: a form that becomes an entry of the address registry. */
export interface Planned {
  name: string;
  /** Ranges, separated by commas or blanks. */
  nodes: string;
  pods: string;
  services: string;
  publicServices: string;
  natHost: string;
  /** Numbers as they are typed. */
  nodeCount: string;
  podsPerNode: string;
  nodePrefix: string;
}

export const NOTHING_PLANNED: Planned = { name: "", nodes: "", pods: "", services: "", publicServices: "", natHost: "", nodeCount: "", podsPerNode: "", nodePrefix: "" };

/** Fields of the form, by the field of the registry that the server names. */
const FIELDS: readonly (readonly [RegExp, keyof Planned])[] = [
  [/^size\.nodePrefix6?\b/, "nodePrefix"],
  [/^size\.podsPerNode\b/, "podsPerNode"],
  [/^size\b/, "nodeCount"],
  [/^publicServices\b/, "publicServices"],
  [/^natHost\b/, "natHost"],
  [/^services\b/, "services"],
  [/^nodes\b/, "nodes"],
  [/^pods\b/, "pods"],
  [/^name\b/, "name"],
];

type Registry = Readonly<Record<string, unknown>>;

/** Return the entry for the registry; what is empty is left out. A number that is none stays a text, so that the server says what is wrong with it. */
export function entryOf(planned: Planned): Record<string, unknown> {
  const ranges = (text: string) => text.split(/[\s,]+/).filter(Boolean);
  const number = (text: string) => (/^\d+$/.test(text.trim()) ? Number(text) : text.trim());
  const size = filled({ nodes: number(planned.nodeCount), podsPerNode: number(planned.podsPerNode), nodePrefix: number(planned.nodePrefix) });
  return filled({
    name: planned.name.trim(),
    nodes: ranges(planned.nodes),
    pods: ranges(planned.pods),
    services: ranges(planned.services),
    publicServices: ranges(planned.publicServices),
    natHost: planned.natHost.trim(),
    size,
  });
}

function filled(fields: Record<string, unknown>): Record<string, unknown> {
  const isEmpty = (value: unknown) => value === "" || (Array.isArray(value) ? !value.length : typeof value === "object" && !Object.keys(value ?? {}).length);
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => !isEmpty(value)));
}

/** Return the registry with the planned cluster, as a file: JSON is YAML as well. */
export function fileWith(registry: Registry, planned: Planned): string {
  return JSON.stringify({ ...registry, clusters: [...clustersOf(registry), entryOf(planned)] });
}

export function clustersOf(registry: Registry): unknown[] {
  return Array.isArray(registry.clusters) ? registry.clusters : [];
}

/** Return the entry as lines for the file of the registry. */
export function yamlOf(planned: Planned): string {
  const written = (value: unknown): string => {
    if (Array.isArray(value)) return `[${value.map((each) => JSON.stringify(each)).join(", ")}]`;
    if (typeof value === "object" && value !== null) return `{${Object.entries(value).map(([key, each]) => `${key}: ${written(each)}`).join(", ")}}`;
    return typeof value === "string" && /^[a-z][a-z0-9-]*$/.test(value) ? value : JSON.stringify(value);
  };
  const lines = Object.entries(entryOf(planned)).map(([key, value], index) => `${index ? "    " : "  - "}${key}: ${written(value)}`);
  return ["clusters:", ...lines].join("\n");
}

export interface Said {
  /** The server's faults and findings about fields of the form. */
  byField: Partial<Record<keyof Planned, string>>;
  /** Its faults and findings about anything else. */
  others: string[];
}

/** Return faults or findings of the server, beside the fields of the planned cluster, which is number `place` in the file. */
export function saidOf(faults: readonly { field?: string; message: string; hint?: string }[], place: number): Said {
  const said: Said = { byField: {}, others: [] };
  const own = `clusters[${place}]`;
  for (const { field = "", message, hint } of faults) {
    const words = [message, hint].filter(Boolean).join("; ");
    const rest = field.startsWith(`${own}.`) ? field.slice(own.length + 1) : "";
    const key = field === own ? "name" : FIELDS.find(([pattern]) => rest && pattern.test(rest))?.[1];
    if (key) said.byField[key] = [said.byField[key], words].filter(Boolean).join(". ");
    else said.others.push(field ? `${field}: ${words}` : words);
  }
  return said;
}
