import { Link, useLocation } from "wouter";
import { openDialog } from "@/lib/dialogs";
import { Icon, IconButton, Tooltip } from "@/ui";
import { Logo } from "./Logo";
import { addressOf } from "./navigation";
import { PAGES, type PageEntry } from "./routes";

/** The pages, 60 px wide on the left. */
export function Rail() {
  const [location] = useLocation();
  return (
    <nav
      aria-label="Pages"
      className="flex w-15 shrink-0 flex-col items-center border-r border-line bg-surface"
    >
      <div className="flex h-11 shrink-0 items-center">
        <Logo />
      </div>
      {PAGES.map((page) => (
        <RailEntry key={page.path} page={page} current={location.startsWith(page.path)} />
      ))}
      <IconButton
        icon="help"
        label="Keyboard shortcuts"
        keys="?"
        onClick={() => openDialog("shortcuts")}
        className="mt-auto mb-3.5"
      />
    </nav>
  );
}

function RailEntry({ page, current }: { page: PageEntry; current: boolean }) {
  const look = current ? "text-accent font-medium" : "text-t2 hover:text-text";
  return (
    <Tooltip text={page.name} keys={page.keys} side="right">
      <Link
        href={addressOf(page.path, window.location.search)}
        aria-current={current ? "page" : undefined}
        className={`relative flex h-13 w-full flex-col items-center justify-center gap-1 rounded-chip text-label -outline-offset-2! transition-colors ${look}`}
      >
        {current && <span className="absolute top-3 bottom-3 left-0 w-0.5 bg-accent" />}
        <Icon name={page.icon} size={18} />
        {page.name}
      </Link>
    </Tooltip>
  );
}
