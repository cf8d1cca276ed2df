import createCache from "@emotion/cache";
import { CacheProvider } from "@emotion/react";
import CssBaseline from "@mui/material/CssBaseline";
import { ThemeProvider } from "@mui/material/styles";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode, useMemo } from "react";
import { createRoot } from "react-dom/client";
import { Refused } from "../api/client";
import { onDoubtfulSession } from "../api/session";
import { hasLink, useLink } from "../api/signIn";
import { useColours } from "./colours";
import { NotLoaded } from "./parts";
import { Session } from "./Session";
import { themeOf } from "./theme";

const nonce = document.querySelector<HTMLMetaElement>("meta[name=style-nonce]")?.content ?? "";
const styles = createCache({ key: "kaji", nonce });

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // A refusal stays one; a server that is away comes back.
      retry: (count, error) => !(error instanceof Refused && error.status < 500) && count < 2,
      staleTime: 1_000,
    },
  },
});

onDoubtfulSession(() => void queries.invalidateQueries({ queryKey: ["whoami"] }, { cancelRefetch: false }));

function App({ refusal }: { refusal: string }) {
  const mode = useColours();
  const theme = useMemo(() => themeOf(mode), [mode]);
  return (
    <CacheProvider value={styles}>
      <ThemeProvider theme={theme}>
        <CssBaseline />
        <QueryClientProvider client={queries}>
          <Session refusal={refusal} />
        </QueryClientProvider>
      </ThemeProvider>
    </CacheProvider>
  );
}

// A link that is opened in this tab may differ from its address by the code alone; then the browser loads nothing.
window.addEventListener("hashchange", () => hasLink() && window.location.reload());

/** Log an error of the page, but not code that did not arrive: the page says so, and loads itself again. */
function onCaughtError(error: unknown) {
  if (!(error instanceof NotLoaded)) console.error(error);
}

const root = document.getElementById("root");
if (root) {
  const refusal = await useLink();
  createRoot(root, { onCaughtError }).render(
    <StrictMode>
      <App refusal={refusal} />
    </StrictMode>,
  );
}
