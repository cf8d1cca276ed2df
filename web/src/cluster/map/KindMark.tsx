import { useTheme } from "@mui/material/styles";
import type { Kind } from "../colours";

/** The mark of a kind of cell, as the map draws it. */
export function KindMark({ kind }: { kind: Kind }) {
  const dark = useTheme().palette.mode === "dark";
  const colour = dark ? kind.dark : kind.light;
  return (
    <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true" style={{ flex: "none" }}>
      <rect x="0.5" y="0.5" width="11" height="11" fill={kind.fill === "full" ? colour : "none"} stroke={colour} />
      {kind.fill === "part" && <rect x="0" y="6" width="12" height="6" fill={colour} />}
      {kind.fill === "crossed" && <path d="M1 1l10 10M11 1L1 11" stroke={colour} />}
    </svg>
  );
}
