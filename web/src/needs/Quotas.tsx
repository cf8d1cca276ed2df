import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { useQueries } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";
import { tightestFirst, wordsFor } from "./quotas";

const REFRESH_MS = 30_000;

/** The quotas of namespaces and their use, the tightest first; nothing if there are none. */
export function Quotas({ namespaces }: { namespaces: readonly string[] }) {
  const found = useQueries({
    queries: namespaces.map((namespace) => ({
      queryKey: ["quotas", namespace],
      queryFn: async () => contentOf(await client.GET("/v1/quotas", { params: { query: { namespace } } })),
      refetchInterval: REFRESH_MS,
      retry: false,
    })),
  });
  const lists = found.flatMap(({ data }) => (data?.items.length ? [data] : []));
  if (!lists.length) return null;
  return (
    <Box component="section" aria-label="Quotas" sx={{ display: "grid", gap: 2 }}>
      {lists.map(({ namespace, items }) => (
        <div key={namespace}>
          <Typography variant="h2">Quota of {namespace}</Typography>
          <Box component="ul" sx={{ m: 0, pl: 5 }}>
            {tightestFirst(items).map(({ quota, resource, used, limit, left, part, limitedTo }) => (
              <Box component="li" key={`${quota} ${resource}`} title={`ResourceQuota ${quota}: ${resource}`} sx={{ overflowWrap: "anywhere", fontWeight: part >= 1 ? 600 : undefined }}>
                {wordsFor(resource)}: {used} of {limit} in use, {part >= 1 ? "nothing" : left} left{limitedTo && `; only ${limitedTo}`}
              </Box>
            ))}
          </Box>
        </div>
      ))}
    </Box>
  );
}
