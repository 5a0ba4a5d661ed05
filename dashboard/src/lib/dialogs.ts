/** Which dialog is open; there is never more than one. */
import { create } from "zustand";

export type DialogName =
  | "palette"
  | "shortcuts"
  | "stop"
  | "hyperparameters"
  | "determinism"
  | "new-run"
  | "delete-run";

interface OpenDialog {
  open: DialogName | null;
  /** Id of the run it is about; null for the one that is followed. */
  about: string | null;
}

export const useDialog = create<OpenDialog>()(() => ({ open: null, about: null }));

export const openDialog = (open: DialogName, about: string | null = null): void =>
  useDialog.setState({ open, about });
export const closeDialog = (): void => useDialog.setState({ open: null, about: null });

/** Asks before the run is stopped: that cannot be undone. */
export const askStop = (): void => openDialog("stop");
