import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useRef, useState } from "react";
import { useUploads } from "./useUploads";

interface Properties {
  /** Names of the files that the folder has. */
  names: ReadonlySet<string>;
  /** Return the address to which a file of this name is uploaded. */
  addressOf: (name: string) => string;
}

/** A button that uploads files into a folder. It asks before a file of the folder is replaced. */
export function UploadFiles({ names, addressOf }: Properties) {
  const input = useRef<HTMLInputElement>(null);
  const [asking, setAsking] = useState<readonly File[]>([]);
  const { send, uploads, going, forget } = useUploads(addressOf);
  const replaced = asking.filter(({ name }) => names.has(name));
  const choose = (files: readonly File[]) => {
    forget();
    if (files.some(({ name }) => names.has(name))) setAsking(files);
    else if (files.length) send(files);
  };
  const replace = () => {
    setAsking([]);
    send(asking);
  };
  const failed = uploads.filter(({ error }) => error);
  return (
    <Box sx={{ display: "grid", justifyItems: "start", gap: 2, mb: 2 }}>
      <Button size="small" variant="outlined" onClick={() => input.current?.click()} disabled={!!going}>
        Upload files
      </Button>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files to upload"
        onChange={({ target }) => {
          choose([...(target.files ?? [])]);
          target.value = "";
        }}
      />
      {replaced.length > 0 && (
        <Alert severity="warning">
          {replaced.length === 1 ? (
            <>
              <bdi>{replaced[0]?.name}</bdi> is there already.
            </>
          ) : (
            `${replaced.length} of these files are there already.`
          )}
          <Button size="small" color="error" onClick={replace} sx={{ ml: 2 }}>
            Replace {replaced.length === 1 ? "it" : "them"}
          </Button>
          <Button size="small" onClick={() => setAsking([])}>
            Upload nothing
          </Button>
        </Alert>
      )}
      {going && (
        <Typography role="status">
          Uploading <bdi>{going}</bdi> …
        </Typography>
      )}
      {!going && uploads.length > 0 && (
        <Alert severity={failed.length ? "error" : "success"} role="status" onClose={forget}>
          {arrived(uploads.length, failed.length)}
          {failed.map(({ name, error }) => (
            <div key={name}>
              <bdi>{name}</bdi>: {error?.message}
            </div>
          ))}
        </Alert>
      )}
    </Box>
  );
}

function arrived(all: number, failed: number): string {
  const files = all === 1 ? "1 file" : `${all} files`;
  return failed ? `${all - failed} of ${files} arrived.` : `${files} arrived.`;
}
