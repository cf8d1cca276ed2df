import { Link } from "react-router";
import { Age } from "../../words/times/Age";
import { Faint, Part } from "../../common/Part";
import { gpusOf, nameOf, type NodeHolder } from "./figures";

const MOST = 20;

/** The runs that held a node in the time of its plots, the last one first. */
export function Holders({ holders, gpus }: { holders: readonly NodeHolder[]; gpus: number }) {
  return (
    <Part title="Held by, in this time (grey in the plots)" empty="No run.">
      {holders.slice(-MOST).reverse().map((held) => (
        <li key={`${nameOf(held)} ${held.since}`}>
          {held.run ? <Link to={`/runs/${encodeURIComponent(held.namespace)}/${encodeURIComponent(held.run)}`}>{nameOf(held)}</Link> : nameOf(held)}
          <Faint>
            {[gpusOf(held, gpus)].filter(Boolean).map((text) => `${text}, `)}
            from <Age time={held.since} /> to <Age time={held.until} />
          </Faint>
        </li>
      ))}
    </Part>
  );
}
