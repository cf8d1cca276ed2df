import Box from "@mui/material/Box";
import Link from "@mui/material/Link";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import type { Schemas } from "../api/client";
import { Age } from "../words/times/Age";
import { bytes } from "../words/amounts";
import { joinedPath } from "./paths";

type File = Schemas["FileView"];

interface Properties {
  /** The folder of the items. */
  folder: string;
  items: readonly File[];
  open: (path: string) => void;
  /** Return the address at which a browser downloads a file. */
  addressOf: (path: string) => string;
}

/** The entries of one folder: folders are opened, files downloaded. */
export function FileTable({ folder, items, open, addressOf }: Properties) {
  return (
    <Table size="small" aria-label="Files" sx={{ tableLayout: "fixed" }}>
      <TableHead>
        <TableRow>
          <TableCell>Name</TableCell>
          <TableCell align="right" sx={{ width: { xs: 92, sm: 120 } }}>
            Size
          </TableCell>
          <TableCell sx={{ width: { xs: 108, sm: 200 } }}>Changed</TableCell>
        </TableRow>
      </TableHead>
      <TableBody>
        {items.map((file) => (
          <TableRow key={file.name} hover>
            <TableCell sx={{ overflowWrap: "anywhere" }}>
              <Name file={file} path={joinedPath(folder, file.name)} open={open} addressOf={addressOf} />
              {file.leadsTo && <Box component="span" sx={{ color: "text.secondary" }}>{` → ${file.leadsTo}`}</Box>}
            </TableCell>
            <TableCell align="right">{file.kind === "file" ? bytes(file.sizeBytes) : ""}</TableCell>
            <TableCell>
              <Age time={file.modifiedAt} />
            </TableCell>
          </TableRow>
        ))}
      </TableBody>
    </Table>
  );
}

/** A file's name. It may be of any script, so its direction is its own. */
function Name({ file, path, open, addressOf }: { file: File; path: string } & Pick<Properties, "open" | "addressOf">) {
  if (!file.readable) {
    const why = file.leadsTo ? "This link leads out of the folder, or to nothing." : "This entry cannot be read by its name. The folder's archive may have it.";
    return (
      <Box component="bdi" title={why} sx={{ color: "text.secondary" }}>
        {file.name}
      </Box>
    );
  }
  if (file.kind === "folder")
    return (
      <Link component="button" onClick={() => open(path)} sx={{ font: "inherit", textAlign: "start", verticalAlign: "baseline" }}>
        <bdi>{file.name}</bdi>/
      </Link>
    );
  return (
    <Link href={addressOf(path)} download>
      <bdi>{file.name}</bdi>
    </Link>
  );
}
