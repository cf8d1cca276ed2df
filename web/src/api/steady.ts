/** Requests that are sent again if their connection breaks: a browser drops all of them when its network changes. */
import { noteRefusal } from "./session";

/** Pauses before a request is sent again. After them its failure counts. */
const PAUSES_MS: readonly number[] = [200, 600];

/** Do `ask`, and again if its connection breaks. It must do no harm to send it twice. */
export async function repeated<T>(ask: () => Promise<T>, signal?: AbortSignal | null): Promise<T> {
  for (const pause of PAUSES_MS) {
    try {
      return await ask();
    } catch (error) {
      // Browsers report a broken connection, and code that did not arrive, as a TypeError.
      if (!(error instanceof TypeError) || signal?.aborted) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  return ask();
}

/** `fetch`, which notices that the session has ended, and sends again what only reads. */
export const steadyFetch: typeof fetch = async (input, init) => {
  const request = input instanceof Request ? input : init;
  const method = request?.method ?? "GET";
  const answer = await (method === "GET" ? repeated(() => fetch(input, init), request?.signal) : fetch(input, init));
  return noteRefusal(answer, input);
};
