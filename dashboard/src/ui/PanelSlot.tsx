import { type ReactNode, Suspense } from "react";
import { InViewContext, useIntersection } from "@/lib/inView";
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

/** A slot that knows whether it is in view: what its panel shows of a run is captured only then. */
export function LivePanelSlot({ title, children, className = "" }: PanelSlotProps & { className?: string }) {
  const [ref, isInView] = useIntersection();
  return (
    <div ref={ref} className={`min-h-0 min-w-0 ${className}`}>
      <InViewContext value={isInView}>
        <PanelSlot title={title}>{children}</PanelSlot>
      </InViewContext>
    </div>
  );
}
