import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import TextField from "@mui/material/TextField";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { client, contentOf, type Schemas } from "../api/client";
import { useSettled } from "../start/useSettled";

const OFFERED = 20;
const SETTLED_MS = 200;

interface Properties {
  /** The runs that are compared already. */
  known: readonly string[];
  add: (run: string) => void;
}

/** A field that takes another run into the comparison: it offers runs whose name, owner or label fits, the newest first. */
export function AddRun({ known, add }: Properties) {
  const [text, setText] = useState("");
  const list = useId();
  const words = useSettled(text.slice(text.indexOf("/") + 1).trim(), SETTLED_MS);
  const found = useQuery({
    queryKey: ["compare-offers", words],
    queryFn: async () => {
      const query = { search: words, fields: ["summary" as const], limit: OFFERED, sort: "-createdAt" as const };
      return (contentOf(await client.GET("/v1/runs", { params: { query } })) as Schemas["RunTable"]).items;
    },
    placeholderData: keepPreviousData,
  });
  const offers = (found.data ?? []).map(({ namespace, name }) => `${namespace}/${name}`).filter((run) => !known.includes(run));
  const named = offers.filter((run) => run.endsWith(`/${text.trim()}`));
  const wanted = text.includes("/") ? text.trim() : named.length === 1 ? named[0]! : "";
  const take = (run: string) => {
    if (run && !known.includes(run)) add(run);
    setText("");
  };
  return (
    <Box
      component="form"
      role="search"
      aria-label="Add a run"
      onSubmit={(event) => {
        event.preventDefault();
        take(wanted);
      }}
      sx={{ display: "flex", gap: 2, minWidth: 0 }}
    >
      <TextField
        size="small"
        value={text}
        onChange={(event) => (offers.includes(event.target.value) ? take(event.target.value) : setText(event.target.value))}
        placeholder="Add a run: team/name"
        slotProps={{ htmlInput: { list, "aria-label": "Add a run", spellCheck: false, dir: "auto" } }}
        sx={{ width: 240, minWidth: 0 }}
      />
      <datalist id={list}>
        {offers.map((run) => (
          <option key={run} value={run} />
        ))}
      </datalist>
      <Button type="submit" size="small" variant="outlined" disabled={!wanted}>
        Add
      </Button>
    </Box>
  );
}
