import { type ReactNode, Suspense } from "react";
import { InViewContext, useIntersection } from "@/lib/inView";
import { Panel } from "./Panel";
import { PanelBoundary } from "./PanelBoundary";

interface PanelSlotProps {
  title: string;
  children: ReactNode;
  className?: string;
}

/** Where a panel goes: an error stays inside, its code may still load, and it knows whether it can be seen. */
export function PanelSlot({ title, children, className = "" }: PanelSlotProps) {
  const [ref, isInView] = useIntersection();
  return (
    <div ref={ref} className={`min-h-0 min-w-0 ${className}`}>
      <InViewContext value={isInView}>
        <PanelBoundary title={title}>
          <Suspense fallback={<Panel title={title} className="h-full" />}>{children}</Suspense>
        </PanelBoundary>
      </InViewContext>
    </div>
  );
}
