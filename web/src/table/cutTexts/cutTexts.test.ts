import { expect, it } from "vitest";
import { cutTexts } from "./cutTexts";

function cell(textContent: string, scrollWidth: number) {
  return { textContent, scrollWidth, clientWidth: 100 };
}

it("tells the whole texts of cells that are cut, with their columns", () => {
  const cells = [cell("", 200), cell("bert", 100), cell(" member 3: FileNotFoundError ", 101)];
  expect(cutTexts(cells, ["Name", "Why"])).toEqual([{ column: "Why", text: "member 3: FileNotFoundError" }]);
});
