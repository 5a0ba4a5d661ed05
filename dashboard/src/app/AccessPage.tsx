import { currentToken } from "@/api/client";
import { Logo } from "./Logo";

/** Shown when the server does not know this tab: there is nothing else to show then. */
export function AccessPage() {
  const hasToken = currentToken() !== null;
  return (
    <main className="flex h-full items-center justify-center p-8">
      <div className="w-[440px] rounded-layer bg-surface p-6">
        <Logo />
        <h1 className="mt-4 text-bar font-semibold">
          {hasToken ? "The token in this link is not valid" : "This link has no access token"}
        </h1>
        {hasToken && <p className="mt-1 text-t2">It belongs to other runs, or it was replaced.</p>}
        <p className="mt-3 text-t2">
          Open the link that midstep printed in the terminal. It ends in{" "}
          <code className="font-mono">#token=…</code>. In a terminal on that machine, this command prints it
          again:
        </p>
        <code className="mt-2 block rounded-control bg-s2 px-2.5 py-1.5 font-mono select-all">
          midstep ctl link
        </code>
      </div>
    </main>
  );
}
