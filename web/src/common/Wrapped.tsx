import Box from "@mui/material/Box";

/** A text whose options, such as --code, are not broken at their dashes. */
export function Wrapped({ text }: { text: string }) {
  return text.split(/((?<=\s)--?[a-z-]{1,24}(?=\s))/).map((part, index) =>
    index % 2 ? (
      <Box key={index} component="span" sx={{ whiteSpace: "nowrap" }}>
        {part}
      </Box>
    ) : (
      part
    ),
  );
}
