/** Connects a terminal with a shell in a member. If the member does not run yet, it asks again until it does. */
import { doubtSession } from "../api/session";
import { read, resized, typed, PROTOCOL } from "./channels";

export const AGAIN_MS = 2_000;
const NO_CONNECTION = "The server can't be reached, or something between it and this browser does not pass on WebSockets";
/** Statuses of refusals that pass: the server or the cluster is busy, or away. */
const PASSING: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** The run of the member, as far as the page knows it. */
export interface Known {
  /** The run has ended or was removed. */
  isOver: boolean;
  /** Number of members; 0 before the first attempt. */
  members: number;
}

export interface Screen {
  show: (output: Uint8Array) => void;
  size: () => { columns: number; rows: number };
  /** The shell has printed something, so keys go to it. */
  ready: () => void;
  /** There is no shell yet, for this reason; the connection is tried again. */
  waiting: (why: string) => void;
  /** The shell has ended, or there will be none, for this reason. */
  ended: (why: string) => void;
}

type Socket = Pick<WebSocket, "addEventListener" | "binaryType" | "close" | "readyState" | "send">;

/** Whether a refusal with this status may pass while the terminal waits for the member. */
export function mayPass(status: number, rank: number, { isOver, members }: Known): boolean {
  if (PASSING.has(status)) return true;
  if (isOver) return false;
  return status === 409 || (status === 404 && (members === 0 || rank < members));
}

/** A shell in the member of a rank. `close` it at the end. */
export class ShellConnection {
  private socket: Socket | undefined;
  private again: ReturnType<typeof setTimeout> | undefined;
  private isClosed = false;

  constructor(
    private readonly address: string,
    private readonly rank: number,
    private readonly known: () => Known,
    private readonly screen: Screen,
    private readonly open: (address: string) => Socket = (of) => new WebSocket(of, PROTOCOL),
  ) {
    this.connect();
  }

  type(text: string): void {
    this.send(typed(text));
  }

  resize(): void {
    const { columns, rows } = this.screen.size();
    this.send(resized(columns, rows));
  }

  /** Close the connection. If a reason is given, the screen shows it. */
  close(why = ""): void {
    this.isClosed = true;
    clearTimeout(this.again);
    this.socket?.close();
    if (why) this.screen.ended(why);
  }

  private connect(): void {
    const socket = this.open(this.address);
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    let wasOpen = false;
    let hasOutput = false;
    let why = "";
    let waits = false;
    socket.addEventListener("open", () => {
      wasOpen = true;
      this.resize();
    });
    socket.addEventListener("message", (event) => {
      const received = read((event as MessageEvent<ArrayBuffer>).data);
      if (!received || this.isClosed) return;
      if ("output" in received) {
        if (!hasOutput) this.screen.ready();
        hasOutput = true;
        this.screen.show(received.output);
      } else if ("ended" in received) why = received.ended;
      else {
        waits = mayPass(received.status, this.rank, this.known());
        why = waits ? received.refused : [received.refused, received.hint].filter(Boolean).join("; ");
      }
    });
    socket.addEventListener("close", (event) => {
      if (this.isClosed) return;
      if (wasOpen && !waits) return this.screen.ended(why || (event as CloseEvent).reason || "The connection has ended.");
      if (!wasOpen) doubtSession(); // a browser does not tell why a WebSocket was refused
      this.screen.waiting(wasOpen ? why : NO_CONNECTION);
      this.again = setTimeout(() => this.connect(), AGAIN_MS);
    });
  }

  private send(message: Uint8Array<ArrayBuffer>): void {
    if (this.socket?.readyState === OPEN) this.socket.send(message);
  }
}

const OPEN = 1;
