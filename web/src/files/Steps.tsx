import Box from "@mui/material/Box";
import Link from "@mui/material/Link";
import type { Step } from "./paths";

/** The folders that lead to the one that is shown; each of them can be opened. */
export function Steps({ steps, open }: { steps: readonly Step[]; open: (path: string) => void }) {
  return (
    <Box role="group" aria-label="Folder" sx={{ flex: "1 1 200px", overflowWrap: "anywhere" }}>
      {steps.map(({ name, path, isLast }) => (
        <span key={path}>
          {isLast ? (
            <strong>{name}</strong>
          ) : (
            <Link component="button" onClick={() => open(path)} sx={{ font: "inherit", verticalAlign: "baseline" }}>
              {name}
            </Link>
          )}
          {!isLast && (name === "/" ? " " : " / ")}
        </span>
      ))}
    </Box>
  );
}
