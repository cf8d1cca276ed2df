import Alert from "@mui/material/Alert";
import Button from "@mui/material/Button";
import { Component, Suspense, useEffect, type ReactNode } from "react";
import { useRouteError } from "react-router";
import { mayReload, NotLoaded } from "./parts";

const AGAIN_MS = 2_000;

/** The replacement for a part of the page that can't be shown. If its code did not arrive, the page loads itself again as soon as the server answers. */
export function Broken({ error }: { error: unknown }) {
  const isMissing = error instanceof NotLoaded;
  useEffect(() => (isMissing ? reloadOnceAnswered() : undefined), [isMissing]);
  const reason = error instanceof Error ? error.message : String(error);
  return (
    <Alert
      severity="error"
      variant="outlined"
      action={
        <Button color="inherit" size="small" onClick={() => window.location.reload()}>
          Try again
        </Button>
      }
    >
      {isMissing ? "This part of the page could not be loaded." : `This page met an error: ${reason}`}
      {isMissing && <div>The server may be away, or of a newer version now.</div>}
    </Alert>
  );
}

/** The replacement for a page that can't be shown. */
export function BrokenPage() {
  return <Broken error={useRouteError()} />;
}

/** Ask the server until it answers, then load the page again: the code that the new page names exists. Return a function that ends this. */
function reloadOnceAnswered(): () => void {
  let timer: number | undefined;
  const abort = new AbortController();
  const ask = () =>
    void fetch("/favicon.svg", { cache: "no-store", signal: abort.signal }).then(
      ({ ok }) => ok && mayReload() && window.location.reload(),
      () => {
        if (!abort.signal.aborted) timer = window.setTimeout(ask, AGAIN_MS);
      },
    );
  ask();
  return () => {
    abort.abort();
    window.clearTimeout(timer);
  };
}

interface Properties {
  /** The placeholder that is shown while the code is fetched. */
  fallback: ReactNode;
  children: ReactNode;
}

/** The place of parts whose code is fetched when they are first shown. Give it a key for what it shows. */
export class PartBoundary extends Component<Properties, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error) return <Broken error={this.state.error} />;
    return <Suspense fallback={this.props.fallback}>{this.props.children}</Suspense>;
  }
}
