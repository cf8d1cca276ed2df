import { expect, it } from "vitest";
import { sentence } from "./sentence";

it.each([
  ["needs 16 h100; nothing fits now", "Needs 16 h100; nothing fits now."],
  ["stopped: it asks for nothing", "Stopped: it asks for nothing."],
  ["quay.io/team/bert:latest may change", "quay.io/team/bert:latest may change."],
  ["team/bert ends", "team/bert ends."],
  ["gpu-00012 takes work again", "gpu-00012 takes work again."],
  ["is it here?", "Is it here?"],
  ["", ""],
])("makes a sentence of %j and leaves names as they are", (message, expected) => expect(sentence(message)).toBe(expected));
