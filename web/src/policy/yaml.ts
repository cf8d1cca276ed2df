/** A document of JSON as YAML, as `kaji policy show` prints it. */

const PLAIN = /^[A-Za-z_/][\w./@ +-]*$/;
/** Words that YAML reads as something other than text. */
const MEANINGFUL = /^(true|false|null|yes|no|on|off|y|n)$/i;

/** Return the lines of a value. */
export function yamlOf(value: unknown, indent = ""): string {
  if (Array.isArray(value)) return value.length ? value.map((each) => `${indent}- ${yamlOf(each, `${indent}  `).trimStart()}`).join("\n") : `${indent}[]`;
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value);
    return entries.length ? entries.map(([key, each]) => `${indent}${scalar(key)}:${isNested(each) ? `\n${yamlOf(each, `${indent}  `)}` : ` ${yamlOf(each)}`}`).join("\n") : `${indent}{}`;
  }
  return indent + scalar(value);
}

function isNested(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

function scalar(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  return PLAIN.test(value) && !MEANINGFUL.test(value) && value.trim() === value ? value : JSON.stringify(value);
}
