/** Calls of the Web API, typed by its OpenAPI document. The browser's session authenticates them. */
import createClient from "openapi-fetch";
import { noteTime } from "./clock";
import type { components, paths } from "./schema";
import { steadyFetch } from "./steady";

export type Schemas = components["schemas"];
export type Run = Schemas["RunView"];
export type Member = Schemas["MemberView"];
export type Phase = Schemas["Phase"];
export type Fault = Schemas["Fault"];

export const client = createClient<paths>({ baseUrl: window.location.origin, credentials: "same-origin", fetch: steadyFetch });
client.use({ onResponse: ({ response }) => noteTime(response.headers.get("date")) });

/** A refusal or failure, in the server's own words. */
export class Refused extends Error {
  readonly status: number;
  readonly hint: string;
  /** Everything that is wrong with the request, by field. */
  readonly faults: readonly Fault[];
  /** The kind of refusal, such as AlreadyExists. */
  readonly code: string;

  constructor(status: number, message: string, hint: string, faults: readonly Fault[] = [], code = "") {
    super(message);
    this.status = status;
    this.hint = hint;
    this.faults = faults;
    this.code = code;
  }
}

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Return the answer's content; throw a Refused if the call failed. */
export function contentOf<T>({ data, error, response }: Answer<T>): T {
  if (data === undefined) throw refusalOf(error, response.status);
  return data;
}

/** Throw a Refused if a call without an answer's content failed. */
export function ensureDone({ error, response }: { error?: unknown; response: Response }): void {
  if (!response.ok) throw refusalOf(error, response.status);
}

/** Return the refusal in an answer of a call that was not made by `client`. */
export async function refusalFrom(answer: Response): Promise<Refused> {
  const isProblem = answer.headers.get("content-type")?.startsWith("application/problem+json");
  return refusalOf(isProblem ? await answer.json() : null, answer.status);
}

function refusalOf(error: unknown, status: number): Refused {
  const problem = typeof error === "object" && error !== null ? (error as Partial<Schemas["Problem"]>) : {};
  return new Refused(status, problem.detail ?? `the server answered with status ${status}`, problem.hint ?? "", problem.faults, problem.code);
}

/** Yield the lines of a text that arrives in pieces, without line ends; a last line without an end as well. */
export async function* linesOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string[]> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      if (lines.length) yield lines;
    }
    if (rest) yield [rest];
  } finally {
    await reader.cancel();
  }
}
