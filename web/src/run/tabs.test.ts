import { expect, it } from "vitest";
import { tabNamed, tabsOf } from "./tabs";

it("has the tabs that a run has", () => {
  expect(tabsOf({ waits: false, terminal: false }, true)).toEqual(["log", "figures", "attempts", "files", "time", "stuck"]);
});

it("understands earlier names in saved links", () => {
  const tabs = tabsOf({}, false);
  expect([tabNamed("why", tabs), tabNamed("stuck", tabs), tabNamed("figures", tabs)]).toEqual(["stuck", "stuck", "figures"]);
  expect([tabNamed(null, tabs), tabNamed("nonsense", tabs), tabNamed("waits", tabsOf({ waits: false }, false))]).toEqual([undefined, undefined, undefined]);
});
