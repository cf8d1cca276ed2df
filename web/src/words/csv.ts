/** Return a cell of CSV. A spreadsheet would read a text that begins with =, +, - or @ as a formula, so it gets an apostrophe. */
export function cell(value: string | number | undefined): string {
  if (value === undefined) return "";
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : `${value}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The columns of a file: their names, and the value of each in a row. */
export type CsvColumns<T> = Readonly<Record<string, (row: T) => string | number | null | undefined>>;

/** Return rows as CSV, under the names of their columns. */
export function csvTable<T>(rows: readonly T[], columns: CsvColumns<T>): string {
  const lines = rows.map((row) => Object.values(columns).map((value) => cell(value(row) ?? undefined)));
  return [Object.keys(columns).map(cell), ...lines].map((line) => `${line.join(",")}\n`).join("");
}
