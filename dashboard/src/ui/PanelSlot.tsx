import { type ReactNode, Suspense } from "react";
import { Panel } from "./Panel";
import { PanelBoundary } from "./PanelBoundary";

interface PanelSlotProps {
  /** Title of the panel, also while its code is loaded and after it crashed. */
  title: string;
  children: ReactNode;
}

/** Where a panel is put on a page: keeps its errors inside it, and its room while its code is loaded. */
export function PanelSlot({ title, children }: PanelSlotProps) {
  return (
    <PanelBoundary title={title}>
      <Suspense fallback={<Panel title={title} className="h-full" />}>{children}</Suspense>
    </PanelBoundary>
  );
}
