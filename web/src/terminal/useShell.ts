import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState, type RefObject } from "react";
import type { Run } from "../api/client";
import { MONOSPACE } from "../app/theme";
import { PROTOCOL, read, resized, shellAddress, typed } from "./channels";
import { allowStyles } from "./styles";

const MOST_WAITING_BYTES = 16 << 20;
const NOT_OPENED =
  "No shell could be opened. The member must be running, its image needs a shell, and you need the right to run programs in it (create pods/exec).";

interface Shell {
  element: RefObject<HTMLDivElement | null>;
  /** Why there is no shell now; empty while there is one. */
  ended: string;
}

/** Open a shell in a member and show it in an element, until the component ends. */
export function useShell(run: Run, rank: number): Shell {
  const element = useRef<HTMLDivElement>(null);
  const [ended, setEnded] = useState("");
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
    const socket = new WebSocket(shellAddress(window.location.origin, namespace, name, rank), PROTOCOL);
    socket.binaryType = "arraybuffer";
    let wasOpen = false;
    let why = "";
    let waitingBytes = 0;
    const send = (message: Uint8Array<ArrayBuffer>) => socket.readyState === WebSocket.OPEN && socket.send(message);
    const show = (output: Uint8Array) => {
      waitingBytes += output.length;
      if (waitingBytes > MOST_WAITING_BYTES) {
        why = "The program prints faster than this page can show it.";
        socket.close();
      } else terminal.write(output, () => (waitingBytes -= output.length));
    };
    socket.addEventListener("open", () => {
      wasOpen = true;
      send(resized(terminal.cols, terminal.rows));
      terminal.focus();
    });
    socket.addEventListener("message", (event: MessageEvent<ArrayBuffer>) => {
      const received = read(event.data);
      if (received && "output" in received) show(received.output);
      else if (received) why = received.ended;
    });
    socket.addEventListener("close", (event) => {
      setEnded(why || event.reason || (wasOpen ? "The connection has ended." : NOT_OPENED));
    });
    terminal.onData((text) => send(typed(text)));
    terminal.onResize(({ cols, rows }) => send(resized(cols, rows)));
    const observer = new ResizeObserver(() => fit.fit());
    observer.observe(target);
    return () => {
      observer.disconnect();
      socket.close();
      terminal.dispose();
    };
  }, [namespace, name, rank]);
  return { element, ended };
}
