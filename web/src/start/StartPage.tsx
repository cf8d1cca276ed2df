import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, type FormEvent } from "react";
import { useNavigate } from "react-router";
import { client, contentOf, Refused, type Fault, type Schemas } from "../api/client";
import { useDefaultNamespace } from "../choices/useTeams";
import { useMayStart, useStartTeams } from "../verbs/useMayChange";
import { Problem } from "../app/Problem";
import { addressOf } from "../runs/RunTable";
import { CodeDrop } from "../code/CodeDrop";
import { CopyLine } from "../common/CopyLine";
import { Quotas } from "../needs/Quotas";
import { Fields } from "./fields/Fields";
import { KindChoice } from "./fields/KindChoice";
import { ON_DEMAND } from "./fields/MoreFields";
import { draftOf, EMPTY, faultsOf, fieldOf, isOffered, missingIn, requestOf, withCode, withNotebookDefaults, withTeam, type FieldName, type Form } from "./form";
import { wordsOf } from "./lines";
import { MyNotebooks } from "./notebooks/MyNotebooks";
import { useMyNotebooks, useNotebookDefaults } from "./notebooks/useNotebooks";
import { Outlook } from "./outlook/Outlook";
import { Recent } from "./Recent";
import { Templates } from "./Templates";
import { useAddressedDraft } from "./useAddressedDraft";
import { forgetDraft } from "./useDraft";
import { useOutlook } from "./outlook/useOutlook";
import { useNeedsCommand } from "./useNeedsCommand";
import { useSettled } from "./useSettled";
import { WhatIfs } from "./outlook/WhatIfs";

/** The control of a field with a fault; that of a choice is no input. */
const FAULTY = ".Mui-error :is([role=combobox], textarea:not([aria-hidden]), input:not([aria-hidden]))";

/** A form in Docker's words. It shows the command line that it makes, and whether the run would start now. */
export function StartPage() {
  const [written, setDraft] = useAddressedDraft();
  const navigate = useNavigate();
  const { form } = written;
  const { kind } = form;
  const notebooks = useMyNotebooks(kind === "notebook");
  const defaults = useNotebookDefaults(notebooks ?? []);
  const teams = useStartTeams();
  const usual = useDefaultNamespace();
  const { draft, isChosen } = useMemo(
    () => withTeam(withNotebookDefaults(written, defaults), teams, usual),
    [written, defaults.name, defaults.image, teams.join(" "), usual],
  );
  const needsCommand = useNeedsCommand();
  const missing = missingIn(draft) || (isChosen ? "" : "Choose a team.");
  const request = useMemo(() => requestOf(draft), [draft]);
  const settled = useSettled(useMemo(() => ({ request, isComplete: !missing }), [request, missing]));
  const { line, outlook, refusal, failure } = useOutlook(settled.request, settled.isComplete && !missing);
  const mayStart = useMayStart();
  const start = useMutation({
    mutationFn: async () =>
      contentOf(await client.POST("/v1/runs", { body: request as Schemas["RunRequest"] })) as Schemas["RunView"],
    onSuccess: async (run) => {
      forgetDraft();
      await navigate(addressOf(run));
    },
  });
  const team = draft.form.namespace || (isChosen ? usual : "");
  const refused = start.error instanceof Refused ? start.error : refusal;
  const faults = useMemo(() => faultsByField(refused && !missing ? faultsOf(refused) : []), [refused, missing]);
  const change = (part: Partial<Form>) => {
    start.reset();
    setDraft((newest) => ({ ...newest, form: { ...newest.form, ...part } }));
  };
  const show = (name: FieldName) => ({
    value: form[name],
    faults: faults.get(name) ?? [],
    onChange: (value: string) => change({ [name]: value }),
  });
  const whole = useRef<HTMLFormElement>(null);
  const goToFault = () => whole.current?.querySelector<HTMLElement>(FAULTY)?.focus();
  useEffect(() => {
    if (start.error) goToFault(); // it may be far above the button
  }, [start.error]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    start.mutate();
  };
  const has = (name: FieldName) => isOffered(written, name) || faults.has(name);
  const hasMore = ON_DEMAND.some((name) => has(name) && (form[name] || faults.has(name)));

  return (
    <Box component="form" ref={whole} onSubmit={submit} sx={{ display: "grid", gap: 5, gridTemplateColumns: "minmax(0, 1fr)" }}>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 4 }}>
        <Typography variant="h1" sx={{ flex: "1 0 auto" }}>
          Start a {kind}
        </Typography>
        <Templates choose={(spec) => setDraft(draftOf({ spec, namespace: form.namespace }))} />
        <Recent choose={(run) => setDraft(draftOf(run))} />
        <Button onClick={() => setDraft({ form: { ...EMPTY, kind }, base: {} })}>Clear</Button>
      </Box>
      <Box
        sx={{
          display: "grid",
          gap: 6,
          gridTemplateColumns: { xs: "minmax(0, 1fr)", md: "minmax(0, 3fr) minmax(0, 2fr)" },
        }}
      >
        <Box sx={{ display: "grid", gap: 5, alignContent: "start", gridTemplateColumns: "minmax(0, 1fr)" }}>
          <KindChoice kind={kind} choose={(chosen) => change({ kind: chosen })} />
          {kind === "notebook" && <MyNotebooks notebooks={notebooks ?? []} />}
          <Fields show={show} has={has} kind={kind} isOpen={hasMore} teams={teams} team={team} usual={usual} needsCommand={needsCommand} notebook={defaults} change={change} />
          {(kind !== "notebook" || draft.base.code) && (
            <CodeDrop
              digest={draft.base.code?.digest ?? ""}
              namespace={draft.form.namespace}
              program={wordsOf(form.command)[0] ?? ""}
              change={(digest) => setDraft((newest) => withCode(newest, digest))}
            />
          )}
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
          {missing && <Typography color="textSecondary">{missing}</Typography>}
          {refused && !missing && <Unplaced refusal={refused} />}
          {faults.size > 0 && <Placed count={faults.size} show={goToFault} />}
          {start.error && !(start.error instanceof Refused) && <Problem error={start.error} />}
          {failure && <Problem error={failure} />}
          {outlook.data && !refused && !failure && !missing && <Outlook found={outlook.data} isOld={outlook.isPlaceholderData} />}
          {outlook.data && !refused && !missing && (
            <WhatIfs
              draft={draft}
              change={change}
            />
          )}
          {teams.includes(team) && <Quotas namespaces={[team]} />}
          <Box>
            {mayStart ? (
              <Button type="submit" variant="contained" disabled={missing !== "" || start.isPending}>
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

function faultsByField(faults: readonly Fault[]): Map<FieldName, Fault[]> {
  const found = new Map<FieldName, Fault[]>();
  for (const fault of faults) {
    const name = fieldOf(fault.field);
    if (name) found.set(name, [...(found.get(name) ?? []), fault]);
  }
  return found;
}

/** Faults that stand beside their fields, which may be out of sight: on a telephone the form is much longer than the screen. */
function Placed({ count, show }: { count: number; show: () => void }) {
  return (
    <Alert
      severity="error"
      variant="outlined"
      action={
        <Button color="inherit" size="small" onClick={show}>
          Show {count === 1 ? "it" : "the first"}
        </Button>
      }
    >
      {count === 1 ? "One field has a fault." : `${count} fields have faults.`} The command line leaves out what can't be read.
    </Alert>
  );
}

/** A refusal, without the faults that stand beside their fields. */
function Unplaced({ refusal }: { refusal: Refused }) {
  const faults = faultsOf(refusal);
  const others = faults.filter((fault) => fieldOf(fault.field) === null);
  if (faults.length && !others.length) return null;
  const text = others.map(({ field, message, hint }) => `${field}: ${message}${hint ? ` (${hint})` : ""}`).join("; ");
  return <Problem error={text ? new Refused(refusal.status, text, "") : refusal} />;
}
