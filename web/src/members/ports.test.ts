import { expect, it } from "vitest";
import type { Member } from "../api/client";
import { addressOf, listening, programOf } from "./ports";

it("names where running members listen, and the address at which the server shows it", () => {
  const member = (rank: number, phase: string, address: string) => ({ rank, phase, address }) as Member;
  expect(listening([member(2, "Running", "10.0.0.2"), member(0, "Pending", "10.0.0.9"), member(1, "Running", ""), member(0, "Running", "fd00::1")]).map(({ rank }) => rank)).toEqual([0, 2]);
  expect([addressOf("fd00::1", 80), addressOf("10.0.0.2", 80)]).toEqual(["[fd00::1]:80", "10.0.0.2:80"]);
  expect([programOf({ namespace: "a", name: "b" }, 8888, 0), programOf({ namespace: "a", name: "b" }, 8888, 3)]).toEqual(["/proxy/a/b/8888/", "/proxy/a/b/8888-3/"]);
});
