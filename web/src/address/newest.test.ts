import { expect, test } from "vitest";
import { NewestAddress } from "./newest";

test("a change builds on the last one, which the page does not show yet", () => {
  const newest = new NewestAddress();
  newest.arrive("1", "text=lr");
  newest.ask("");
  expect(newest.value).toBe("");
  newest.ask("part=failed");
  newest.arrive("2", "");
  expect(newest.value).toBe("part=failed");
  newest.arrive("3", "part=failed");
  newest.arrive("4", "part=all");
  expect(newest.value).toBe("part=all");
});

test("addresses that the browser left out do not come back", () => {
  const newest = new NewestAddress();
  newest.arrive("1", "");
  for (const address of ["a=1", "a=1&b=2", ""]) newest.ask(address);
  newest.arrive("2", "a=1&b=2");
  expect(newest.value).toBe("");
  newest.arrive("3", "");
  newest.arrive("4", "c=3");
  expect(newest.value).toBe("c=3");
});

test("after the button Back, changes build on the address that is shown", () => {
  const newest = new NewestAddress();
  newest.arrive("1", "a=1");
  newest.ask("a=2");
  newest.arrive("0", "b=1");
  expect(newest.value).toBe("b=1");
  newest.arrive("0", "b=1");
  newest.ask("b=2");
  newest.arrive("0", "b=1");
  expect(newest.value).toBe("b=2");
});
