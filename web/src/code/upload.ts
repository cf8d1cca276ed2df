/** The upload of an archive: the same requests as those of `kaji run --code`. */
import { client, contentOf, refusalFrom, Refused, type Schemas } from "../api/client";
import { repeated, steadyFetch } from "../api/steady";
import { frameOf } from "./archive";
import { digestOf, type Pack } from "./pack";

const ROUNDS = 3;

/** Put an archive into the store of a namespace, unless it is there. `progress` is called with the share that is there. Throws a Refused. */
export async function upload(pack: Pack, namespace: string, signal: AbortSignal, progress: (share: number) => void): Promise<void> {
  const params = { path: { digest: pack.digest }, query: namespace ? { namespace } : {} };
  const there = await client.GET("/v1/code/{digest}", { params, signal });
  if (there.response.ok) return;
  if (there.response.status !== 404) contentOf(there);
  for (let round = 0; round < ROUNDS; round++) {
    const known = contentOf(await client.GET("/v1/code/{digest}/parts", { params, signal }));
    if (pack.size > known.maxBytes) throw new Error(tooLarge(pack, known.maxBytes));
    const parts = await sendParts(pack, namespace, known, signal, progress);
    const body = { parts, size: pack.size };
    const whole = await client.POST("/v1/code/{digest}/complete", { params, body, signal });
    if (whole.response.status !== 409) return void contentOf(whole);
  }
  throw new Error("the server loses parts of the upload: try again");
}

/** Send the parts that are missing; return the digests of all. */
async function sendParts(
  pack: Pack,
  namespace: string,
  known: Schemas["CodeParts"],
  signal: AbortSignal,
  progress: (share: number) => void,
): Promise<string[]> {
  const have = new Set(known.items.flatMap(({ number, sha256 }) => sha256.map((sum) => `${number} ${sum}`)));
  const sums: string[] = [];
  for (let number = 0; number * known.partBytes < pack.size; number++) {
    const part = await pack.read(number * known.partBytes, known.partBytes);
    const sum = digestOf(part);
    sums.push(sum);
    if (!have.has(`${number} ${sum}`)) await put(pack.digest, number, sum, namespace, part, signal);
    progress(Math.min(1, ((number + 1) * known.partBytes) / pack.size));
  }
  return sums;
}

async function put(digest: string, number: number, sha256: string, namespace: string, part: Uint8Array, signal: AbortSignal) {
  const query = new URLSearchParams({ sha256, ...(namespace && { namespace }) });
  const { type, body } = await compressed(part);
  const address = `/v1/code/${digest}/parts/${number}?${query}`;
  const answer = await repeated(() => steadyFetch(address, { method: "PUT", headers: { "content-type": type }, body, signal }), signal);
  if (!answer.ok) throw await refusalFrom(answer);
}

/** Return a part for the wire: by gzip, which is what browsers can compress to; older ones send it as it is. */
export async function compressed(part: Uint8Array): Promise<{ type: string; body: Blob }> {
  const bytes = part as Uint8Array<ArrayBuffer>;
  if (typeof CompressionStream === "undefined") return { type: "application/zstd", body: new Blob([frameOf(bytes) as Uint8Array<ArrayBuffer>]) };
  const zipped = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  return { type: "application/gzip", body: await new Response(zipped).blob() };
}

function tooLarge({ size, files }: Pack, most: number): string {
  const mebibytes = (bytes: number) => `${Math.ceil(bytes / 2 ** 20)} MiB`;
  return `the folder has ${mebibytes(size)} in ${files} files; ${mebibytes(most)} are allowed. Name what the program does not need in .kajiignore; data belong on a volume`;
}

/** Return an error in words; null if the person cancelled. */
export function wordsOf(error: unknown): string | null {
  if (error instanceof DOMException && error.name === "AbortError") return null;
  if (error instanceof Refused) return [error.message, error.hint].filter(Boolean).join("; ");
  return error instanceof Error ? error.message : String(error);
}
