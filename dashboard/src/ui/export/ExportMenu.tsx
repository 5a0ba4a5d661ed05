/** The last tool of every panel: what it shows, as a file. */
import { IconButton, Menu, type MenuItem } from "@/ui";

interface ExportMenuProps {
  /** What is exported: "batch", "loss". */
  subject: string;
  items: readonly (MenuItem | "line")[];
  disabledReason?: string | null;
}

export function ExportMenu({ subject, items, disabledReason }: ExportMenuProps) {
  const button = <IconButton icon="download" label={`Export ${subject}`} disabledReason={disabledReason} />;
  if (disabledReason != null) return button;
  return <Menu trigger={button} items={items} />;
}
