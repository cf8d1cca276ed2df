import { describe, expect, it } from "vitest";
import { contentsOf, type Found } from "./folder";
import { modesOf, NO_MODES } from "./gitIndex";
import { notesOn } from "./notes";

/** Indexes that Git 2.39 wrote for: again -> run.sh, bin/tool and run.sh (executable), bin/toolong.txt. Version 3 also has a file that is to be added. */
const VERSION_3 =
  "RElSQwAAAAMAAAAFawtqCROWJmtrC2oJE5YmawAA/gAAIMfoAACgAAAAAAAAAAAAAAAABuDmNHPCWTBA19HGdjeGSCGyjO9LAAVhZ2FpbgAAAAAAawtqCRNp0VtrC2oJE1Vx0wAA/gAAIMfmAACB7QAAAAAAAAAAAAAAAlh75rTD+T+TxInAERu6VZYUeibLAAhiaW4vdG9vbAAAawtqCRNVcdNrC2oJE1Vx0wAA/gAAIMfnAACBpAAAAAAAAAAAAAAAApdfvsglbT6KN5fno2ETgPJ8SfSsAA9iaW4vdG9vbG9uZy50eHQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIGkAAAAAAAAAAAAAAAA5p3im7LR1kNLiymud1rYwuSMU5FAASAAbgAAAAAAAABrC2oJE1Vx02sLagkTHBRrAAD+AAAgx+UAAIHtAAAAAAAAAAAAAAAIiy/lQ0/sFocKcc2LJyx/z201JTYABnJ1bi5zaAAAAAC4cuO3Bek1yBDAPb3t8JpiZZhxyw==";
const VERSION_4 =
  "RElSQwAAAAQAAAAEawtqCROWJmtrC2oJE5YmawAA/gAAIMfoAACgAAAAAAAAAAAAAAAABuDmNHPCWTBA19HGdjeGSCGyjO9LAAUAYWdhaW4AawtqCRNp0VtrC2oJE1Vx0wAA/gAAIMfmAACB7QAAAAAAAAAAAAAAAlh75rTD+T+TxInAERu6VZYUeibLAAgFYmluL3Rvb2wAawtqCRNVcdNrC2oJE1Vx0wAA/gAAIMfnAACBpAAAAAAAAAAAAAAAApdfvsglbT6KN5fno2ETgPJ8SfSsAA8Ab25nLnR4dABrC2oJE1Vx02sLagkTHBRrAAD+AAAgx+UAAIHtAAAAAAAAAAAAAAAIiy/lQ0/sFocKcc2LJyx/z201JTYABg9ydW4uc2gA2yopdNrWonlUOHlzxCQiLcpiq+c=";

const bytesOf = (text: string): ArrayBuffer => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
const file = (name: string, content: BlobPart): Found => ({ name, file: async () => new Blob([content]) });
const folder = (name: string, ...found: Found[]): Found => ({ name, children: async () => found });

it.each([VERSION_3, VERSION_4])("reads executable files and links", (index) => {
  expect(modesOf(bytesOf(index))).toEqual({ executable: new Set(["bin/tool", "run.sh"]), links: new Set(["again"]) });
});

it("reads nothing from other formats and from a part of an index", () => {
  const whole = bytesOf(VERSION_3);
  for (const wrong of [new ArrayBuffer(0), whole.slice(0, 200), new Uint8Array(200).buffer]) expect(modesOf(wrong)).toEqual(NO_MODES);
});

describe("an uploaded checkout", () => {
  const checkout = (...more: Found[]) => [
    folder(".git", file("index", bytesOf(VERSION_3))),
    folder("bin", file("tool", "x"), file("toolong.txt", "y")),
    file("run.sh", "echo hi"),
    ...more,
  ];
  const never = new AbortController().signal;

  it("has the executable files that Git knows, and says which links are left out", async () => {
    const { entries, missingLinks } = await contentsOf(checkout(), never);
    expect(entries.filter(({ isExecutable }) => isExecutable).map(({ path }) => path)).toEqual(["bin/tool", "run.sh"]);
    expect(missingLinks).toEqual(["again"]);
    expect(notesOn({ entries, missingLinks }, "./run.sh")).toEqual([
      "./run.sh can't be the command, since it does not begin with #!. Write: sh run.sh",
      "Left out, since browsers hide links: again. To upload the folder with them: kaji run --code.",
      "Executable: bin/tool, run.sh.",
    ]);
  });

  it("does not miss a link that is ignored, or is a file by now", async () => {
    const ignored = await contentsOf(checkout(file(".kajiignore", "again\n")), never);
    const replaced = await contentsOf(checkout(file("again", "now a file")), never);
    expect([ignored.missingLinks, replaced.missingLinks]).toEqual([[], []]);
  });

  it("says how to run a command without #!", async () => {
    const { entries, missingLinks } = await contentsOf([file("run.py", "print()"), folder("bin", file("go", "echo"))], never);
    const first = (program: string) => notesOn({ entries, missingLinks }, program)[0];
    expect(first("./run.py")).toBe("./run.py can't be the command, since it does not begin with #!. Write: python run.py");
    expect(first("bin/go")).toContain("Write: sh bin/go");
    expect(first("./gone.sh")).toBe("./gone.sh is not in the folder.");
    for (const program of ["python", "/bin/sh", ""]) expect(first(program)).toBe("No file is executable.");
  });
});
