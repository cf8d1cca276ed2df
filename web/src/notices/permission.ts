/** Whether the browser shows notices, and why not. */

/** Ask the browser, which asks the person if they did not decide yet. Returns why it shows none; empty if it does. */
export async function asked(page: Pick<typeof globalThis, "isSecureContext"> & { Notification?: Pick<typeof Notification, "permission" | "requestPermission"> } = globalThis): Promise<string> {
  const { Notification: notices, isSecureContext } = page;
  if (!isSecureContext) return "Browsers show notices only for pages with HTTPS, and this one came without it.";
  if (!notices) return "This browser shows no notices of pages.";
  const answer = notices.permission === "default" ? await notices.requestPermission() : notices.permission;
  if (answer === "granted") return "";
  if (answer === "default") return "The browser was not allowed to show notices. Click again to be asked again.";
  return "This browser refuses notices of this page. Allow them in its settings for this page, behind the mark beside the address, then click again.";
}
