import "@/styles/index.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError, initialiseToken, prefetch, RUNS_AT_A_TIME, runsPath } from "@/api/client";
import { initialiseTheme } from "@/lib/theme";
import { App } from "./App";
import { pageOf } from "./routes";

initialiseToken();
initialiseTheme();
// The page's own code comes while React starts, and so does the one answer that may take long.
void pageOf(window.location.pathname).load();
if (window.location.pathname === "/runs") prefetch(runsPath(0, RUNS_AT_A_TIME));

// A new link pasted into this tab changes only the fragment, which loads nothing by itself.
window.addEventListener("hashchange", () => {
  if (!window.location.hash.includes("token=")) return;
  initialiseToken();
  window.location.reload();
});

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // A refusal stays one; only silence is worth another try.
      retry: (count, error) => count < 2 && error instanceof ApiError && error.status === 0,
      refetchOnWindowFocus: false,
      staleTime: Number.POSITIVE_INFINITY,
    },
  },
});

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
