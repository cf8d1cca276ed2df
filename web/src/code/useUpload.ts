import { useRef, useState } from "react";
import { contentsOf, type Found, type FoundFile } from "./folder";
import { packed } from "./pack";
import { upload, wordsOf } from "./upload";

export interface Uploading {
  /** The present step, and the finished share of it, from 0 to 1. */
  step: "Reading" | "Uploading";
  share: number;
}

export interface Uploaded {
  digest: string;
  name: string;
  bytes: number;
  entries: readonly FoundFile[];
  missingLinks: readonly string[];
}

/** Read, pack and upload a folder; `done` gets the uploaded archive. */
export function useUpload(namespace: string, done: (uploaded: Uploaded) => void) {
  const [state, setState] = useState<Uploading | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  const running = useRef<AbortController | null>(null);
  const start = async (folder: { name: string; found: () => Promise<Found[]> } | null) => {
    running.current?.abort();
    if (!folder) return setFault("that is not a folder: drop the folder with your program");
    const mine = new AbortController();
    running.current = mine;
    const tell = (step: Uploading["step"]) => (share: number) => running.current === mine && setState({ step, share });
    setFault(null);
    tell("Reading")(0);
    try {
      const { entries, missingLinks } = await contentsOf(await folder.found(), mine.signal);
      const pack = await packed(entries, mine.signal, tell("Reading"));
      await upload(pack, namespace, mine.signal, tell("Uploading"));
      mine.signal.throwIfAborted();
      done({ digest: pack.digest, name: folder.name, bytes: pack.size, entries, missingLinks });
    } catch (error) {
      if (running.current === mine) setFault(wordsOf(error));
    }
    if (running.current === mine) setState(null);
  };
  const cancel = () => {
    running.current?.abort();
    running.current = null;
    setState(null);
  };
  return { state, fault, start, cancel };
}
