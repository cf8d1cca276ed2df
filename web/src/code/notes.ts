/** Notes about an uploaded folder: the properties that a browser hides. */
import { bytes } from "../words/amounts";
import type { Uploaded } from "./useUpload";

const SHOWN = 4;
/** Programs that run a script without `#!`, by the end of its name. */
const INTERPRETERS: Readonly<Record<string, string>> = { sh: "sh", bash: "bash", py: "python" };

export function summaryOf({ name, entries, bytes: size }: Uploaded): string {
  return `${name}, ${entries.length} ${entries.length === 1 ? "file" : "files"}, ${bytes(size)}`;
}

/** Return which files are executable, which links are missing, and whether the command's own file can't be run. `program` is the first word of the command. */
export function notesOn({ entries, missingLinks }: Pick<Uploaded, "entries" | "missingLinks">, program: string): string[] {
  const executable = entries.filter(({ isExecutable }) => isExecutable).map(({ path }) => path);
  const links = missingLinks.length
    ? [`Left out, since browsers hide links: ${firstFew(missingLinks)}. To upload the folder with them: kaji run --code.`]
    : [];
  return [...commandNote(entries, program), ...links, executable.length ? `Executable: ${firstFew(executable)}.` : "No file is executable."];
}

function commandNote(entries: Uploaded["entries"], program: string): string[] {
  if (!program.includes("/") || program.startsWith("/")) return [];
  const path = program.split("/").filter((part) => part && part !== ".").join("/");
  const file = entries.find((entry) => entry.path === path && !entry.isFolder);
  if (!file) return [`${program} is not in the folder.`];
  if (file.isProgram) return [];
  const interpreter = INTERPRETERS[path.split(".").at(-1) ?? ""] ?? "sh";
  return [`${program} can't be the command, since it does not begin with #!. Write: ${interpreter} ${path}`];
}

function firstFew(paths: readonly string[]): string {
  const more = paths.length - SHOWN;
  return `${paths.slice(0, SHOWN).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
