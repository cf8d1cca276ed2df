import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState, type RefObject } from "react";
import type { Run } from "../api/client";
import { MONOSPACE } from "../app/theme";
import { isFinal, membersOf } from "../run/data/status";
import { shellAddress } from "./channels";
import { ShellConnection } from "./connection";
import { allowStyles } from "./styles";

const MOST_WAITING_BYTES = 16 << 20;

interface Shell {
  element: RefObject<HTMLDivElement | null>;
  /** Why there is no shell yet; empty if nothing is waited for. */
  waiting: string;
  /** Why there is no shell any more; empty while there may be one. */
  ended: string;
}

/** Open a shell in a member as soon as it runs and show it in an element, until the component ends. */
export function useShell(run: Run, rank: number): Shell {
  const element = useRef<HTMLDivElement>(null);
  const [state, setState] = useState({ waiting: "", ended: "" });
  const latest = useRef(run);
  latest.current = run;
  const { namespace, name } = run;

  useEffect(() => {
    const target = element.current;
    if (!target) return;
    allowStyles();
    const terminal = new Terminal({ fontFamily: MONOSPACE, fontSize: 13, cursorBlink: false, scrollback: 10_000 });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    terminal.open(target);
    fit.fit();
    let waitingBytes = 0;
    const known = () => ({ isOver: isFinal(latest.current), members: membersOf(latest.current).total });
    const connection = new ShellConnection(shellAddress(window.location.origin, namespace, name, rank), rank, known, {
      show: (output) => {
        waitingBytes += output.length;
        if (waitingBytes > MOST_WAITING_BYTES) connection.close("The program prints faster than this page can show it.");
        else terminal.write(output, () => (waitingBytes -= output.length));
      },
      size: () => ({ columns: terminal.cols, rows: terminal.rows }),
      ready: () => {
        setState({ waiting: "", ended: "" });
        if (!(document.activeElement instanceof HTMLInputElement)) terminal.focus(); // a person may be typing a rank
      },
      waiting: (why) => setState({ waiting: why, ended: "" }),
      ended: (why) => setState({ waiting: "", ended: why }),
    });
    terminal.onData((text) => connection.type(text));
    terminal.onResize(() => connection.resize());
    const observer = new ResizeObserver(() => fit.fit());
    observer.observe(target);
    return () => {
      observer.disconnect();
      connection.close();
      terminal.dispose();
    };
  }, [namespace, name, rank]);
  return { element, ...state };
}
