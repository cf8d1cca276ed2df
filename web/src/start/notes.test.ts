import { expect, it } from "vitest";
import { notesOf } from "./notes";

it("puts all defaults into one sentence", () => {
  const findings = [
    { code: "CpuDefaulted", message: "1 core", field: "" },
    { code: "TolerationsAdded", message: "policy adds tolerations", field: "" },
    { code: "MemoryDefaulted", message: "2Gi memory", field: "" },
    { code: "ReadOnlyNotEnforced", message: "quay.io/team/image is not a mount", field: "" },
  ];
  expect(notesOf(findings)).toEqual(["Defaults: 1 core, 2Gi memory.", "Policy adds tolerations.", "quay.io/team/image is not a mount."]);
  expect(notesOf([])).toEqual([]);
});
