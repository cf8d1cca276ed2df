import type { Item } from "./folds";
import { LogText, type Needle } from "./LogText";

interface Properties {
  item: Item;
  /** Text that is marked; null for none. */
  needle: Needle | null;
  /** Open or close a traceback, by the key of its first row. */
  toggle: (fold: number) => void;
}

/** The text of one line of a log: what the program printed, a folded traceback, or a note of the page. */
export function LogLine({ item, needle, toggle }: Properties) {
  const { row, fold } = item;
  if (fold) {
    return (
      <span className="text">
        <button type="button" className="fold" aria-expanded="false" onClick={() => toggle(fold.key)}>
          ▸ {fold.message}
        </button>
        <span className="note">
          {"  "}
          {fold.frame} ({fold.rows.length} lines)
        </span>
      </span>
    );
  }
  if (row.isNote) return <span className="text note">{row.text}</span>;
  const text = (
    <>
      <LogText text={row.text} needle={needle} hasLinks={!item.head} />
      {row.cut && <span className="note"> (the rest of this long line is left out; download the log for it)</span>}
    </>
  );
  return (
    <span className="text">
      {item.head ? (
        <button type="button" aria-expanded="true" title="Fold this traceback" onClick={() => item.head && toggle(item.head.key)}>
          ▾ {text}
        </button>
      ) : (
        text
      )}
    </span>
  );
}
