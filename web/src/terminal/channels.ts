/** Messages of `v5.channel.k8s.io`, in which a program in a member talks to a terminal. The first byte is the channel. */

export const PROTOCOL = "v5.channel.k8s.io";
const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;
const STATUS = 3;
const RESIZE = 4;

const encoder = new TextEncoder();

/** A received message: output, the end of the program, or the reason why the server runs none. */
export type Received = { output: Uint8Array } | { ended: string; exitCode?: number } | { refused: string; status: number; hint: string } | null;

/** Return the address of a shell in a member: bash if the image has it, else sh. It knows the terminal by its 256 colours. */
export function shellAddress(origin: string, namespace: string, name: string, rank: number): string {
  return programAddress(origin, namespace, name, rank, ["sh", "-c", "export TERM=xterm-256color; if command -v bash >/dev/null; then exec bash; else exec sh; fi"], true);
}

/** Return the address of a program in a member, with standard input, and with a terminal if it needs one. */
export function programAddress(origin: string, namespace: string, name: string, rank: number, command: readonly string[], tty: boolean): string {
  const path = `/v1/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/exec`;
  const query = new URLSearchParams([...command.map((word) => ["command", word]), ["rank", `${rank}`], ["stdin", "true"], ["tty", `${tty}`], ["explain", "true"]]);
  return `${origin.replace(/^http/, "ws")}${path}?${query}`;
}

/** Return the message for keys that were pressed. */
export function typed(text: string): Uint8Array<ArrayBuffer> {
  return onChannel(STDIN, encoder.encode(text));
}

/** Return the message for the size of the terminal. */
export function resized(columns: number, rows: number): Uint8Array<ArrayBuffer> {
  return onChannel(RESIZE, encoder.encode(JSON.stringify({ Width: columns, Height: rows })));
}

/** Decode a message; null if it contains nothing for a terminal. `what` is the program in sentences. */
export function read(message: ArrayBuffer, what = "The shell"): Received {
  const bytes = new Uint8Array(message);
  const content = bytes.subarray(1);
  switch (bytes[0]) {
    case STDOUT:
    case STDERR:
      return content.length ? { output: content } : null;
    case STATUS:
      return endOf(new TextDecoder().decode(content), what);
    default:
      return null;
  }
}

interface Status {
  status?: string;
  message?: string;
  /** An HTTP status. The end of a program has none, and 500 is a program whose end is not known. */
  code?: number;
  details?: { causes?: { reason: string; message: string }[] };
}

function endOf(text: string, what: string): Received {
  try {
    const { status, message = "", code, details } = JSON.parse(text) as Status;
    if (status === "Success") return { ended: `${what} has ended.` };
    const caused = (by: string) => details?.causes?.find(({ reason }) => reason === by)?.message ?? "";
    if (caused("ExitCode")) return { ended: `${what} has ended with exit code ${caused("ExitCode")}.`, exitCode: Number(caused("ExitCode")) };
    if (!code || code === 500) return { ended: `${what} has ended: ${message || "it failed"}.` };
    return { refused: message, status: code, hint: caused("Hint") };
  } catch {
    return { ended: `${what} has ended.` };
  }
}

function onChannel(channel: number, content: Uint8Array): Uint8Array<ArrayBuffer> {
  const message = new Uint8Array(content.length + 1);
  message[0] = channel;
  message.set(content, 1);
  return message;
}
