import { createTheme } from "@mui/material/styles";

const SYSTEM = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans JP", sans-serif';
export const MONOSPACE = 'ui-monospace, "SFMono-Regular", Menlo, Consolas, "Liberation Mono", monospace';

/** The theme of all pages, on a 4 px grid. */
export function themeOf(mode: "light" | "dark") {
  const dark = mode === "dark";
  return createTheme({
    palette: {
      mode,
      primary: { main: dark ? "#5cc9c1" : "#0b6e69" },
      warning: { main: dark ? "#f0b45c" : "#8a5200" },
      error: { main: dark ? "#ff8a80" : "#b3261e" },
      background: dark ? { default: "#14181c", paper: "#1b2026" } : { default: "#fafbfb", paper: "#ffffff" },
      text: dark ? { primary: "#e6e9ec", secondary: "#a9b1b9" } : { primary: "#1c2227", secondary: "#56616b" },
      divider: dark ? "#2c333b" : "#e2e6e9",
    },
    spacing: 4,
    shape: { borderRadius: 6 },
    typography: {
      fontFamily: SYSTEM,
      body1: { fontSize: 14 },
      body2: { fontSize: 14 },
      h1: { fontSize: 20, fontWeight: 600 },
      h2: { fontSize: 16, fontWeight: 600 },
      button: { textTransform: "none" },
    },
    components: {
      MuiCssBaseline: {
        styleOverrides: {
          // A word that is wider than the window is broken: nobody has to scroll sideways.
          body: { fontVariantNumeric: "tabular-nums", overflowWrap: "break-word" },
          a: { color: "inherit" },
          "@media (prefers-reduced-motion: reduce)": { "*": { animation: "none !important", transition: "none !important" } },
        },
      },
      MuiButtonBase: {
        defaultProps: { disableRipple: true },
        // Without ripples nothing else would show where the keyboard is.
        styleOverrides: {
          root: ({ theme }) => ({ "&.Mui-focusVisible": { outline: `2px solid ${theme.palette.primary.main}`, outlineOffset: -2 } }),
        },
      },
      MuiTableCell: { styleOverrides: { root: ({ theme }) => ({ borderColor: theme.palette.divider }) } },
      MuiToggleButtonGroup: {
        // The first button of a second line has a left edge, too.
        styleOverrides: {
          root: ({ theme }) => ({ flexWrap: "wrap", rowGap: theme.spacing(1), "& .MuiToggleButtonGroup-grouped": { borderLeftColor: theme.palette.divider } }),
        },
      },
      // The chosen button also has another text colour, in the light and in the dark theme.
      MuiToggleButton: {
        styleOverrides: {
          root: ({ theme }) => ({ color: theme.palette.text.secondary, "&.Mui-selected": { color: theme.palette.text.primary } }),
        },
      },
      MuiInputBase: {
        styleOverrides: { input: ({ theme }) => ({ "&::placeholder": { color: theme.palette.text.secondary, opacity: 1 } }) },
      },
      MuiTooltip: { defaultProps: { enterDelay: 300 } },
    },
  });
}
