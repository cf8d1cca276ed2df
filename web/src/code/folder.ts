/** The files of a folder that a person dropped or chose, without those that its ignore files exclude. */
import { MOST_FILES, type Entry } from "./archive";
import { encoded } from "./bytes";
import { modesOf, NO_MODES, type Modes } from "./gitIndex";
import { entered, excludes, GIT_FOLDER, IGNORE_FILES, rulesOf, type Ignoring } from "./ignoring";

/** A file or folder as the browser shows it. */
export type Found = { name: string; file: () => Promise<Blob> } | { name: string; children: () => Promise<Found[]> };

export interface FoundFile extends Entry {
  content: Blob | null;
  /** Whether the system can run it by itself: a script with #!, or a program for Linux. */
  isProgram?: boolean;
}

const LONGEST_NAME = 255;
const DEEPEST = 128;

/** The part of a folder that is packed. */
export interface Contents {
  entries: readonly FoundFile[];
  /** Links that Git knows there. Browsers show no links, so they are left out. */
  missingLinks: readonly string[];
}

/** Return the entries of an archive of these files. Throws an Error for a folder that cannot be packed, or if `signal` is aborted. */
export async function contentsOf(top: readonly Found[], signal: AbortSignal): Promise<Contents> {
  const entries: FoundFile[] = [];
  const missingLinks: string[] = [];
  const modes = await gitModes(top);
  const walk = async (folder: readonly Found[], path: string, above: Ignoring): Promise<void> => {
    const rules = rulesOf(await ignoreTexts(folder));
    const ignoring = entered(above, path, rules);
    if (!folder.length && path) entries.push({ path: path.slice(0, -1), size: 0, isFolder: true, content: null });
    for (const link of modes.links) {
      const name = link.slice(path.length);
      const isHere = link.startsWith(path) && !name.includes("/");
      if (isHere && !excludes(ignoring, link) && !folder.some((item) => item.name === name)) missingLinks.push(link);
    }
    for (const item of folder) {
      signal.throwIfAborted();
      const isFolder = "children" in item;
      const below = path + item.name;
      if (item.name === GIT_FOLDER || excludes(ignoring, isFolder ? `${below}/` : below)) continue;
      if (encoded(item.name).length > LONGEST_NAME || below.split("/").length > DEEPEST) {
        throw new Error(`${below} has a name that is too long, or is too deep: add it to .kajiignore`);
      }
      if (isFolder) await walk(await item.children(), `${below}/`, ignoring);
      else {
        const content = await item.file();
        const isProgram = await canRun(content, below);
        entries.push({ path: below, size: content.size, isFolder: false, isExecutable: isProgram || modes.executable.has(below), isProgram, content });
      }
      if (entries.length > MOST_FILES) {
        throw new Error(`the folder has more than ${MOST_FILES.toLocaleString()} files: name what the program does not need in .kajiignore`);
      }
    }
  };
  await walk(top, "", []);
  if (!entries.length) throw new Error("the folder is empty, or everything in it is excluded");
  return { entries, missingLinks };
}

/** Return the index of the folder's Git checkout; nothing if the folder is not a checkout. */
async function gitModes(top: readonly Found[]): Promise<Modes> {
  const git = top.find(({ name }) => name === GIT_FOLDER);
  if (!git || !("children" in git)) return NO_MODES;
  const index = (await git.children()).find(({ name }) => name === "index");
  return index && "file" in index ? modesOf(await (await index.file()).arrayBuffer()) : NO_MODES;
}

/** Whether a file is a script or a binary for Linux. Without Git, these are the files that are meant to be executable. */
async function canRun(content: Blob, path: string): Promise<boolean> {
  const [a, b, c, d] = new Uint8Array(await contentOf({ path, content }, 0, 4));
  return (a === 0x23 && b === 0x21) || (a === 0x7f && b === 0x45 && c === 0x4c && d === 0x46);
}

/** Return a part of a file. Throws an Error that names it if it can't be read any more. */
export async function contentOf({ path, content }: Pick<FoundFile, "path" | "content">, start: number, end: number): Promise<ArrayBuffer> {
  try {
    return await (content ?? new Blob()).slice(start, end).arrayBuffer();
  } catch {
    throw new Error(`${path} was edited or removed while it was read: drop the folder again`);
  }
}

async function ignoreTexts(folder: readonly Found[]): Promise<string[]> {
  const texts = IGNORE_FILES.map(async (name) => {
    const item = folder.find((found) => found.name === name);
    return item && "file" in item ? await (await item.file()).text() : "";
  });
  return Promise.all(texts);
}

/** Return the name and the content of the folder that was dropped; null if it is no folder. */
export function droppedFolder(items: DataTransferItemList): { name: string; found: () => Promise<Found[]> } | null {
  const [entry] = [...items].map((item) => item.webkitGetAsEntry()).filter((each) => each !== null);
  if (!entry?.isDirectory) return null;
  return { name: entry.name, found: () => childrenOf(entry as FileSystemDirectoryEntry) };
}

async function childrenOf(folder: FileSystemDirectoryEntry): Promise<Found[]> {
  const reader = folder.createReader();
  const found: FileSystemEntry[] = [];
  for (;;) {
    // A reader hands out a hundred at a time.
    const some = await new Promise<FileSystemEntry[]>((take, fail) => reader.readEntries(take, fail));
    if (!some.length) break;
    found.push(...some);
  }
  return found.map((entry) =>
    entry.isDirectory
      ? { name: entry.name, children: () => childrenOf(entry as FileSystemDirectoryEntry) }
      : { name: entry.name, file: () => new Promise<Blob>((take, fail) => (entry as FileSystemFileEntry).file(take, fail)) },
  );
}

/** Return the name and the content of the folder that was chosen in a dialog; null if none was. The dialog leaves out empty folders. */
export function chosenFolder(files: readonly File[]): { name: string; found: () => Promise<Found[]> } | null {
  const [first] = files;
  if (!first) return null;
  const named = files.map((file) => [file.webkitRelativePath.split("/").slice(1), file] as const);
  return { name: first.webkitRelativePath.split("/")[0] ?? "", found: async () => treeOf(named) };
}

/** Return files with the parts of their paths as a tree. */
export function treeOf(files: readonly (readonly [readonly string[], Blob])[]): Found[] {
  const folders = new Map<string, [string[], Blob][]>();
  const found: Found[] = [];
  for (const [[name = "", ...rest], file] of files) {
    if (!rest.length) found.push({ name, file: async () => file });
    else folders.set(name, [...(folders.get(name) ?? []), [rest, file]]);
  }
  for (const [name, below] of folders) found.push({ name, children: async () => treeOf(below) });
  return found;
}
