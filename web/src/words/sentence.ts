/** Return a message as a sentence: messages of the server and of the page begin with a small letter and have no full stop. */
export function sentence(message: string): string {
  if (!message) return "";
  const [first = ""] = message.split(" ", 1);
  // A name stays as it is: quay.io/team/image, gpu-00012, /dev/shm.
  const begin = /^[a-z]+[,:;]?$/.test(first) ? message.charAt(0).toUpperCase() : message.charAt(0);
  return `${begin}${message.slice(1)}${/[.?!…]$/.test(message) ? "" : "."}`;
}

/** Return what went wrong. A browser calls every broken connection a TypeError, with words of its own. */
export function faultOf(error: Error): string {
  return error instanceof TypeError ? "The server does not answer" : error.message;
}
