import { Fragment } from "react";
import { Link } from "react-router";

/** A run that another one waits for. */
export interface Awaited {
  run: string;
  condition?: string;
}

/** Return the address of a run's page. */
export function pageOf({ namespace, name }: { namespace: string; name: string }): string {
  return `/runs/${[namespace, name].map(encodeURIComponent).join("/")}`;
}

/** "after prepare (succeeded), fetch (ended)", each with a link to its page. */
export function AfterRuns({ namespace, after }: { namespace: string; after: readonly Awaited[] }) {
  return (
    <span>
      after{" "}
      {after.map(({ run, condition }, index) => (
        <Fragment key={run}>
          {index > 0 && ", "}
          <Link to={pageOf({ namespace, name: run })}>{run}</Link> ({condition ?? "succeeded"})
        </Fragment>
      ))}
    </span>
  );
}
