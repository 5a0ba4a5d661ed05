/** One label and its value in the top bar. */
import type { ReactNode } from "react";
import { formatCount } from "@/lib/format";

interface FactProps {
  label: string;
  value: ReactNode;
  of?: number | null;
  bad?: boolean;
  id?: string;
}

export function Fact({ label, value, of, bad = false, id }: FactProps) {
  return (
    <span className="flex shrink-0 items-baseline gap-1.5 whitespace-nowrap" id={id}>
      <span className="text-label text-t3">{label}</span>
      <span className={`text-bar font-medium ${bad ? "text-bad" : ""}`}>
        {value}
        {of != null && <span className="font-normal text-t3"> / {formatCount(of)}</span>}
      </span>
    </span>
  );
}
