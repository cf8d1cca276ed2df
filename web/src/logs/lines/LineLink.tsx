import type { MouseEvent } from "react";
import type { Hit } from "../feed/feed";
import type { Row } from "../feed/rows";

interface Properties {
  /** Null if the line has no link: it is of the page, a folded traceback, or of a log without times. */
  row: Row | null;
  addressOf: (line: Hit) => string;
  copy: (row: Row) => Promise<void>;
}

/** The sign at the beginning of a line of a log: a link to the line, which a click copies. For the mouse alone; a marked line has a button below the log. */
export function LineLink({ row, addressOf, copy }: Properties) {
  if (!row) return <span className="place" />;
  const click = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    void copy(row);
  };
  return (
    <a className="place" href={addressOf({ ...row, cursor: "" })} title="Copy a link to this line" tabIndex={-1} aria-hidden="true" onClick={click}>
      #
    </a>
  );
}
