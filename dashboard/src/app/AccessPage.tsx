import { currentToken } from "@/api/client";
import { Logo } from "./Logo";

/** Shown when the server does not know this tab: there is nothing else to show then. */
export function AccessPage() {
  const why =
    currentToken() === null
      ? "It was opened without a token."
      : "The server does not know the token of this page. It may belong to another run, or was renewed since.";
  return (
    <main className="flex h-full items-center justify-center p-8">
      <div className="w-[440px] rounded-layer bg-surface p-6">
        <Logo />
        <h1 className="mt-4 text-bar font-semibold">This page has no key to the run</h1>
        <p className="mt-1 text-t2">{why}</p>
        <p className="mt-3 text-t2">
          Open the link that the run printed where it was started; it ends in{" "}
          <code className="font-mono">#token=…</code>. From a terminal on that machine every command works
          without it, for example:
        </p>
        <code className="mt-2 block rounded-control bg-s2 px-2.5 py-1.5 font-mono select-all">
          midstep ctl state
        </code>
      </div>
    </main>
  );
}
