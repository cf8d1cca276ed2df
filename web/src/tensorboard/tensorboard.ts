/** TensorBoard inside a member of a running run: it runs for as long as its connection, as with `kaji tensorboard`. */
import script from "../../../src/kajitori/member/tensorboard.sh?raw";
import { programAddress, PROTOCOL, read } from "../terminal/channels";

const NOT_INSTALLED = 127;
const MOST_WORDS = 2_000;
/** TensorBoard prints this once it listens. Members of kaji up share the ports of their machine, so the port may be any. */
const LISTENS = /at http:\/\/\S*:(\d+)\//;

export interface Board {
  /** End TensorBoard. */
  close: () => void;
}

type Socket = Pick<WebSocket, "addEventListener" | "binaryType" | "close">;

interface Place {
  namespace: string;
  name: string;
  rank: number;
  folder: string;
}

/** Start TensorBoard in a member. `listens` is called with its port once it can be opened, and `ended` with the reason once it has ended, unless the person ended it. */
export function startBoard(place: Place, listens: (port: number) => void, ended: (why: string) => void, open: (address: string) => Socket = (of) => new WebSocket(of, PROTOCOL), origin = window.location.origin): Board {
  const { namespace, name, rank, folder } = place;
  const socket = open(programAddress(origin, namespace, name, rank, ["/bin/sh", "-c", script, "sh", folder, ""], false));
  socket.binaryType = "arraybuffer";
  let isClosed = false;
  let said = "";
  let why = "";
  let port = 0;
  socket.addEventListener("message", (event) => {
    const received = read((event as MessageEvent<ArrayBuffer>).data, "TensorBoard");
    if (!received) return;
    if ("output" in received) {
      said = (said + new TextDecoder().decode(received.output)).slice(-MOST_WORDS);
      if (!isClosed && !port && (port = Number(LISTENS.exec(said)?.[1] ?? 0))) listens(port);
    } else if ("refused" in received) why = [received.refused, received.hint].filter(Boolean).join("; ");
    else why = received.exitCode === NOT_INSTALLED ? NOT_THERE : `${received.ended} ${lastLine(said)}`.trim();
  });
  socket.addEventListener("close", () => {
    if (!isClosed) ended(why || "The connection has ended, and TensorBoard with it.");
  });
  return {
    close: () => {
      isClosed = true;
      socket.close();
    },
  };
}

export const NOT_THERE = "TensorBoard is not installed in the image. Install it in the member, and start it again:";

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}
