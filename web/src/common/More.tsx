import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import { useEffect, useRef } from "react";

interface Properties {
  hasMore: boolean;
  isLoading: boolean;
  load: () => void;
}

/** The end of a list that comes in pages: the next page is loaded as soon as a person scrolls here, or by a button. */
export function More({ hasMore, isLoading, load }: Properties) {
  const end = useRef<HTMLDivElement>(null);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const found = end.current;
    if (!found || !hasMore || isLoading) return;
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (entry?.isIntersecting) latest.current();
      },
      { rootMargin: "400px" },
    );
    observer.observe(found);
    return () => observer.disconnect();
  }, [hasMore, isLoading]);
  return (
    <Box ref={end} sx={{ py: 3, minHeight: 48 }}>
      {hasMore && (
        <Button size="small" disabled={isLoading} onClick={load}>
          {isLoading ? "Loading more …" : "Show more"}
        </Button>
      )}
    </Box>
  );
}
