/** Signs that the browser's session has ended. They make the page ask who is signed in, and hide it if the session has ended. */
const UNAUTHENTICATED = 401;
/** Its answer is the one that counts. */
const WHO_AM_I = "/v1/whoami";

let ask = (): void => undefined;

/** Call `listener` whenever the session may have ended. */
export function onDoubtfulSession(listener: () => void): void {
  ask = listener;
}

/** Ask again who is signed in: the server refused this browser, or did not say why a connection failed. */
export function doubtSession(): void {
  ask();
}

/** Return an answer. If it says that no one is signed in, check the session. */
export function noteRefusal(answer: Response, asked: RequestInfo | URL): Response {
  const address = asked instanceof Request ? asked.url : `${asked}`;
  if (answer.status === UNAUTHENTICATED && !address.endsWith(WHO_AM_I)) doubtSession();
  return answer;
}
