/** Return a cell of CSV. A spreadsheet would read a text that begins with =, +, - or @ as a formula, so it gets an apostrophe. */
export function cell(value: string | number | undefined): string {
  if (value === undefined) return "";
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : `${value}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
