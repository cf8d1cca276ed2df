/** Reads a followed log: frames of a line of JSON and a number of bytes, which may end inside a line of the log. */
import { lastDrawing, newKey, type Row } from "./rows";

interface Head {
  rank: number;
  attempt: number;
  size: number;
  cursor: string;
}

/** Lines of one rank that arrived together. */
export interface Batch {
  rank: number;
  attempt: number;
  /** More of the line that the batch before left open. */
  rest: string;
  rows: Row[];
  cursor: string;
}

const STAMP = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z) /;
const END = 10;

/** Splits bytes into frames, and frames into lines. Feed it the bytes as they arrive. */
export class FrameReader {
  private left = new Uint8Array(0);
  private readonly decoders = new Map<number, TextDecoder>();
  private readonly open = new Set<number>();
  private readonly words = new TextDecoder();

  /** Return the batches that are complete. */
  feed(bytes: Uint8Array): Batch[] {
    let data = this.left.length ? joined(this.left, bytes) : bytes;
    const found: Batch[] = [];
    for (;;) {
      const end = data.indexOf(END);
      if (end < 0) break;
      const head = JSON.parse(this.words.decode(data.subarray(0, end))) as Head;
      if (data.length < end + 1 + head.size) break;
      found.push(this.batch(head, data.subarray(end + 1, end + 1 + head.size)));
      data = data.subarray(end + 1 + head.size);
    }
    this.left = data.slice();
    return found;
  }

  private batch({ rank, attempt, cursor }: Head, bytes: Uint8Array): Batch {
    // A character may be split between two frames of a rank.
    const decoder = this.decoders.get(rank) ?? new TextDecoder();
    this.decoders.set(rank, decoder);
    let text = decoder.decode(bytes, { stream: true });
    let rest = "";
    if (this.open.has(rank)) {
      const end = text.indexOf("\n");
      if (end < 0) return { rank, attempt, rest: text, rows: [], cursor };
      rest = text.slice(0, end);
      text = text.slice(end + 1);
      this.open.delete(rank);
    }
    const lines = text.split("\n");
    const last = lines.pop();
    if (last) {
      lines.push(last);
      this.open.add(rank);
    }
    return { rank, attempt, rest, rows: lines.map((line) => rowOf(rank, attempt, line)), cursor };
  }
}

function rowOf(rank: number, attempt: number, line: string): Row {
  const stamp = STAMP.exec(line);
  const text = stamp ? line.slice(stamp[0].length) : line;
  return { key: newKey(), rank, attempt, time: stamp?.[1] ?? "", nth: 1, text: lastDrawing(text) };
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}
