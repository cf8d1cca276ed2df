import { useQuery } from "@tanstack/react-query";
import { createBrowserRouter, Navigate, RouterProvider } from "react-router";
import { whoAmI } from "../api/signIn";
import { RunsPage } from "../runs/RunsPage";
import { Frame } from "./Frame";
import { Problem } from "./Problem";
import { SignInPage } from "./SignInPage";

const router = createBrowserRouter([
  {
    element: <Frame />,
    children: [
      { path: "/", element: <Navigate to="/runs" replace /> },
      { path: "/runs", element: <RunsPage /> },
      { path: "/start", lazy: async () => ({ Component: (await import("../start/StartPage")).StartPage }) },
      { path: "/cluster/:node?", lazy: async () => ({ Component: (await import("../cluster/ClusterPage")).ClusterPage }) },
      { path: "/runs/:namespace/:name", lazy: async () => ({ Component: (await import("../run/RunPage")).RunPage }) },
    ],
  },
]);

/** The pages for somebody who is signed in, else the ways to sign in. */
export function Session({ refusal }: { refusal: string }) {
  const who = useQuery({ queryKey: ["whoami"], queryFn: whoAmI, refetchInterval: 60_000 });
  if (who.data) return <RouterProvider router={router} />;
  if (who.data === null) return <SignInPage refusal={refusal} />;
  return who.error ? <Problem error={who.error} retry={() => void who.refetch()} /> : null;
}
