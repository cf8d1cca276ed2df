/** The styles that xterm.js makes while it runs, under a content policy that asks for a nonce. */

const nonce = document.querySelector<HTMLMetaElement>("meta[name=style-nonce]")?.content ?? "";
const create = document.createElement.bind(document);
let isAllowed = false;

/** Give all style elements that are made from now on the page's nonce. xterm.js has no option for it. */
export function allowStyles(): void {
  if (isAllowed) return;
  isAllowed = true;
  document.createElement = ((name: string, options?: ElementCreationOptions) => {
    const element = create(name, options);
    if (name.toLowerCase() === "style") element.nonce = nonce;
    return element;
  }) as typeof document.createElement;
}
