/** Return a message as a sentence: messages of the server and of the page begin with a small letter and have no full stop. */
export function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

/** Return what went wrong. A browser calls every broken connection a TypeError, with words of its own. */
export function faultOf(error: Error): string {
  return error instanceof TypeError ? "The server does not answer" : error.message;
}
