/** Messages of `v5.channel.k8s.io`, in which a program in a member talks to a terminal. The first byte is the channel. */

export const PROTOCOL = "v5.channel.k8s.io";
const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;
const STATUS = 3;
const RESIZE = 4;

const encoder = new TextEncoder();

/** What a program sent: output, or how it ended. */
export type Received = { output: Uint8Array } | { ended: string } | null;

/** Return the address of a shell in a member: bash where the image has it, else sh. */
export function shellAddress(origin: string, namespace: string, name: string, rank: number): string {
  const path = `/v1/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/exec`;
  const query = new URLSearchParams([
    ...["sh", "-c", "if command -v bash >/dev/null; then exec bash; else exec sh; fi"].map((word) => ["command", word]),
    ["rank", `${rank}`],
    ["stdin", "true"],
    ["tty", "true"],
  ]);
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

/** Return what a message says; null if it says nothing to a terminal. */
export function read(message: ArrayBuffer): Received {
  const bytes = new Uint8Array(message);
  const content = bytes.subarray(1);
  switch (bytes[0]) {
    case STDOUT:
    case STDERR:
      return content.length ? { output: content } : null;
    case STATUS:
      return { ended: endOf(new TextDecoder().decode(content)) };
    default:
      return null;
  }
}

function endOf(text: string): string {
  try {
    const status = JSON.parse(text) as { status?: string; message?: string };
    return status.status === "Success"
      ? "The shell has ended."
      : `The shell has ended: ${status.message ?? "it failed"}.`;
  } catch {
    return "The shell has ended.";
  }
}

function onChannel(channel: number, content: Uint8Array): Uint8Array<ArrayBuffer> {
  const message = new Uint8Array(content.length + 1);
  message[0] = channel;
  message.set(content, 1);
  return message;
}
