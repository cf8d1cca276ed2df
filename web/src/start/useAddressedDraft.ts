import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, type Dispatch, type SetStateAction } from "react";
import { useAddress, withValues } from "../address/useAddress";
import { readRun } from "../run/data/readRun";
import { draftOf, KINDS, type Draft, type Kind } from "./form";
import { useDraft } from "./useDraft";

/** Return the form and its setter. An address can fill it: `/start?from=vision/bert` with that run, and `/start?type=notebook` chooses what is started. */
export function useAddressedDraft(): [Draft, Dispatch<SetStateAction<Draft>>] {
  const [draft, setDraft] = useDraft();
  const [parameters, changeAddress] = useAddress();
  const from = parameters.get("from");
  const type = parameters.get("type");
  const run = useQuery({
    queryKey: ["run-to-copy", from],
    queryFn: async () => {
      const [namespace = "", name = ""] = from?.split("/", 2) ?? [];
      return readRun(namespace, name);
    },
    enabled: from !== null,
    staleTime: Infinity,
  });
  useEffect(() => {
    if (!run.data || from === null) return;
    setDraft(draftOf(run.data));
    changeAddress((newest) => withValues(newest, { from: "", type: "" }));
  }, [run.data, from]);

  const { kind } = draft.form;
  const followed = useRef<string | null>(null);
  useEffect(() => {
    if (from !== null) return;
    if (type !== followed.current && isKind(type) && type !== kind) setDraft((newest) => ({ ...newest, form: { ...newest.form, kind: type } }));
    else if (kind !== (type ?? "run")) changeAddress((newest) => withValues(newest, { type: kind === "run" ? "" : kind }));
    followed.current = type;
  }, [from, type, kind]);
  return [draft, setDraft];
}

function isKind(text: string | null): text is Kind {
  return KINDS.some((kind) => kind === text);
}
