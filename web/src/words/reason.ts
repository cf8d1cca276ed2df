/** Return a reason of the Web API, such as ProgramFailed, as words: "program failed". Abbreviations stay: "waiting for GPU". */
export function reasonWords(reason: string): string {
  return reason.replace(/([a-z])([A-Z])/g, "$1 $2").replace(/\b[A-Z](?=[a-z])/g, (letter) => letter.toLowerCase());
}
