import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, type FormEvent } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { client, contentOf, Refused, type Fault, type Schemas } from "../api/client";
import { whoAmI } from "../api/signIn";
import { useMayStart } from "../verbs/useMayChange";
import { Problem } from "../app/Problem";
import { readRun } from "../run/readRun";
import { addressOf } from "../runs/RunTable";
import { CodeDrop } from "../code/CodeDrop";
import { CopyLine } from "../words/CopyLine";
import { Fields, ON_DEMAND } from "./Fields";
import { draftOf, EMPTY, faultsOf, fieldOf, requestOf, withCode, wordsOf, type FieldName } from "./form";
import { hasMembers } from "./outlook/alternatives";
import { Outlook } from "./outlook/Outlook";
import { Recent } from "./Recent";
import { Templates } from "./Templates";
import { forgetDraft, useDraft } from "./useDraft";
import { useOutlook } from "./outlook/useOutlook";
import { useSettled } from "./useSettled";
import { WhatIfs } from "./outlook/WhatIfs";

/** A form in Docker's words. It shows the command line that it makes, and whether the run would start now. */
export function StartPage() {
  const [draft, setDraft] = useDraft();
  const navigate = useNavigate();
  useRunInAddress(setDraft);
  const { form } = draft;
  const request = useMemo(() => requestOf(draft), [draft]);
  const { line, outlook, refusal, failure } = useOutlook(useSettled(request));
  const mayStart = useMayStart();
  const who = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  const start = useMutation({
    mutationFn: async () =>
      contentOf(await client.POST("/v1/runs", { body: request as Schemas["RunRequest"] })) as Schemas["RunView"],
    onSuccess: async (run) => {
      forgetDraft();
      await navigate(addressOf(run));
    },
  });
  const refused = start.error instanceof Refused ? start.error : refusal;
  const faults = useMemo(() => faultsByField(refused ? faultsOf(refused) : []), [refused]);
  const show = (name: FieldName) => ({
    value: form[name],
    faults: faults.get(name) ?? [],
    onChange: (value: string) => {
      start.reset();
      setDraft((newest) => ({ ...newest, form: { ...newest.form, [name]: value } }));
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    start.mutate();
  };
  const teams = (who.data?.namespaces ?? []).filter(({ role }) => role !== "viewer").map(({ namespace }) => namespace);
  const hasMore = ON_DEMAND.some((name) => form[name] || faults.has(name));

  return (
    <Box component="form" onSubmit={submit} sx={{ display: "grid", gap: 5, gridTemplateColumns: "minmax(0, 1fr)" }}>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 4 }}>
        <Typography variant="h1" sx={{ flex: "1 0 auto" }}>
          Start a run
        </Typography>
        <Templates choose={(spec) => setDraft(draftOf({ spec, namespace: form.namespace }))} />
        <Recent choose={(run) => setDraft(draftOf(run))} />
        <Button onClick={() => setDraft({ form: EMPTY, base: {} })}>Clear</Button>
      </Box>
      <Box
        sx={{
          display: "grid",
          gap: 6,
          gridTemplateColumns: { xs: "minmax(0, 1fr)", md: "minmax(0, 3fr) minmax(0, 2fr)" },
        }}
      >
        <Box sx={{ display: "grid", gap: 5, alignContent: "start", gridTemplateColumns: "minmax(0, 1fr)" }}>
          <Fields show={show} isOpen={hasMore} teams={teams} hasMembers={hasMembers(draft) || faults.has("members")} isNotebook={draft.base.type === "notebook"} />
          <CodeDrop
            digest={draft.base.code?.digest ?? ""}
            namespace={form.namespace}
            program={wordsOf(form.command)[0] ?? ""}
            change={(digest) => setDraft((newest) => withCode(newest, digest))}
          />
        </Box>
        <Box
          sx={{
            display: "grid",
            gap: 4,
            gridTemplateColumns: "minmax(0, 1fr)",
            alignContent: "start",
            position: { md: "sticky" },
            top: { md: 16 },
            alignSelf: "start",
          }}
        >
          {line && <CopyLine text={line} wraps />}
          {!form.image.trim() && <Typography color="textSecondary">Name an image to begin with.</Typography>}
          {refused && <Unplaced refusal={refused} />}
          {start.error && !(start.error instanceof Refused) && <Problem error={start.error} />}
          {failure && <Problem error={failure} />}
          {outlook.data && !refusal && !failure && <Outlook found={outlook.data} isOld={outlook.isPlaceholderData} />}
          {outlook.data && !refusal && (
            <WhatIfs
              draft={draft}
              change={(part) => setDraft((newest) => ({ ...newest, form: { ...newest.form, ...part } }))}
            />
          )}
          <Box>
            {mayStart ? (
              <Button type="submit" variant="contained" disabled={!form.image.trim() || start.isPending}>
                Start
              </Button>
            ) : (
              <Typography>
                You may see runs, but not start them. Your operators can give you the role of a user in a team.
              </Typography>
            )}
          </Box>
        </Box>
      </Box>
    </Box>
  );
}

/** Fill the form from the run that the address names: `/start?from=vision/bert`. */
function useRunInAddress(setDraft: (draft: ReturnType<typeof draftOf>) => void): void {
  const [parameters, setParameters] = useSearchParams();
  const from = parameters.get("from");
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
    setParameters({}, { replace: true });
  }, [run.data, from]);
}

function faultsByField(faults: readonly Fault[]): Map<FieldName, Fault[]> {
  const found = new Map<FieldName, Fault[]>();
  for (const fault of faults) {
    const name = fieldOf(fault.field);
    if (name) found.set(name, [...(found.get(name) ?? []), fault]);
  }
  return found;
}

/** A refusal, without the faults that stand beside their fields. */
function Unplaced({ refusal }: { refusal: Refused }) {
  const faults = faultsOf(refusal);
  const others = faults.filter((fault) => fieldOf(fault.field) === null);
  if (faults.length && !others.length) return null;
  const text = others.map(({ field, message, hint }) => `${field}: ${message}${hint ? ` (${hint})` : ""}`).join("; ");
  return <Problem error={text ? new Refused(refusal.status, text, "") : refusal} />;
}
