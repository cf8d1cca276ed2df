import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { refusalFrom } from "../api/client";
import { steadyFetch } from "../api/steady";

/** What became of one file. */
export interface Upload {
  name: string;
  /** Why it did not arrive; null if it did. */
  error: Error | null;
}

/** Upload files one after the other, each to the address of its name. The list of the folder is read again after the last one. */
export function useUploads(addressOf: (name: string) => string) {
  const queries = useQueryClient();
  const [uploads, setUploads] = useState<readonly Upload[]>([]);
  const [going, setGoing] = useState("");
  const sending = useMutation({
    mutationFn: async (files: readonly File[]) => {
      setUploads([]);
      for (const file of files) {
        setGoing(file.name);
        const error = await put(addressOf(file.name), file).then(
          () => null,
          (reason: unknown) => (reason instanceof Error ? reason : new Error(String(reason))),
        );
        setUploads((known) => [...known, { name: file.name, error }]);
      }
    },
    onSettled: async () => {
      await queries.invalidateQueries({ queryKey: ["member-files"] }); // so that a file that is sent again is known
      setGoing("");
    },
  });
  return { send: sending.mutate, uploads, going, forget: () => setUploads([]) };
}

async function put(address: string, file: File): Promise<void> {
  const answer = await steadyFetch(address, { method: "PUT", headers: { "content-type": "application/octet-stream" }, body: file });
  if (!answer.ok) throw await refusalFrom(answer);
}
