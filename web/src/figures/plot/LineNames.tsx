import Box from "@mui/material/Box";
import { useTheme } from "@mui/material/styles";
import { lineColours } from "./Plot";

/** The names of a plot's lines, each beside its colour. */
export function LineNames({ names, label }: { names: readonly string[]; label: string }) {
  const colours = lineColours(useTheme().palette.mode === "dark");
  return (
    <Box component="ul" aria-label={label} sx={{ display: "flex", flexWrap: "wrap", gap: 4, listStyle: "none", p: 0, m: 0, mb: 2 }}>
      {names.map((name, index) => (
        <Box component="li" key={name} sx={{ display: "flex", alignItems: "center", gap: 2, overflowWrap: "anywhere" }}>
          <Box aria-hidden="true" sx={{ width: 16, height: 3, bgcolor: colours[index % colours.length] }} />
          {name}
        </Box>
      ))}
    </Box>
  );
}
