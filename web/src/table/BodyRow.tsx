import { memo } from "react";
import { Link, useNavigate } from "react-router";
import type { Column } from "../common/VirtualTable";
import { cellClass, classes } from "./style";

interface Properties<T> {
  item: T;
  columns: readonly Column<T>[];
  /** Position of the row in the whole table, from 0, and its distance from the top in pixels. */
  index: number;
  top: number;
  to: string;
  /** Whether the keyboard is at this row. */
  isCurrent: boolean;
  opensOnClick: boolean;
  /** Whether it is selected; undefined if rows cannot be. */
  isChosen: boolean | undefined;
  choose: (item: T, range: boolean) => void;
  /** Measures the row, whose words wrap; null: it has the usual height, and long words are cut. */
  measure: ((row: HTMLElement | null) => void) | null;
}

/** One row of a table. It is drawn again only when something in it changes, not whenever the table scrolls. */
export const BodyRow = memo(Row) as typeof Row;

function Row<T>({ item, columns, index, top, to, isCurrent, opensOnClick, isChosen, choose, measure }: Properties<T>) {
  const navigate = useNavigate();
  const isMarked = isCurrent || isChosen;
  return (
    <div
      role="row"
      ref={measure}
      data-index={index}
      aria-rowindex={index + 2}
      aria-current={isCurrent || undefined}
      onClick={opensOnClick ? () => navigate(to) : undefined}
      className={classes("table-row is-body", isMarked && "is-marked", isCurrent && "is-current", opensOnClick && "opens")}
      style={{ transform: `translateY(${top}px)` }}
    >
      {isChosen !== undefined && (
        <div role="cell" className="table-choice" onClick={(event) => event.stopPropagation()}>
          <input
            type="checkbox"
            aria-label={`Select ${lastOf(to)}`}
            checked={isChosen}
            onChange={(event) => choose(item, (event.nativeEvent as MouseEvent).shiftKey)}
          />
        </div>
      )}
      {columns.map((column, place) => {
        const { name, isLink, cell } = column;
        const content = cell(item);
        const text = typeof content === "string" ? content : undefined;
        return (
          // The direction of its text decides on which side a long one is cut.
          <div key={name} role="cell" dir={text && "auto"} className={cellClass(column, columns[place - 1])} title={text}>
            {isLink ? (
              <Link to={to} dir="auto" onClick={(event) => event.stopPropagation()}>
                {content}
              </Link>
            ) : (
              content
            )}
          </div>
        );
      })}
    </div>
  );
}

/** Return the last name in an address. */
function lastOf(address: string): string {
  const path = address.replace(/\?.*$/, "");
  return decodeURIComponent(path.slice(path.lastIndexOf("/") + 1));
}
