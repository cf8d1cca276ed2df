import { expect, it } from "vitest";
import { dataOf, usersInWords } from "./needs";

it("sends the values of a secret in base64: texts as UTF-8, files byte by byte", () => {
  const entries = [
    { key: " TOKEN ", value: "舵取り" },
    { key: "key.bin", value: new Uint8Array([0, 255, 128]) },
  ];
  expect(dataOf(entries)).toEqual({ TOKEN: "6Ii15Y+W44KK", "key.bin": "AP+A" });
});

it("names who uses a volume", () => {
  expect([[], ["bert"], ["bert", "vit", "gpt"]].map(usersInWords)).toEqual(["", "used by bert", "used by bert and 2 more"]);
});
