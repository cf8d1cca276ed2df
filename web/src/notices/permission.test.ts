import { expect, it } from "vitest";
import { asked } from "./permission";

const page = (permission: NotificationPermission, answer = permission) => ({
  isSecureContext: true,
  Notification: { permission, requestPermission: async () => answer },
});

it.each([
  [page("granted"), ""],
  [page("default", "granted"), ""],
  [page("default"), "Click again"],
  [page("denied"), "refuses notices"],
  [{ isSecureContext: true }, "shows no notices"],
  [{ ...page("denied"), isSecureContext: false }, "HTTPS"],
])("says why there are no notices: %#", async (found, words) => {
  const refusal = await asked(found);
  expect(refusal === "" ? "" : refusal.includes(words) && words).toBe(words);
});
