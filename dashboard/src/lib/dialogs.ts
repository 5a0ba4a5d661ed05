/** Which dialog is open; there is never more than one. */
import { create } from "zustand";

export type DialogName = "palette" | "keys" | "stop" | "hparams" | "certificate";

export const useDialog = create<{ open: DialogName | null }>()(() => ({ open: null }));

export const openDialog = (open: DialogName): void => useDialog.setState({ open });
export const closeDialog = (): void => useDialog.setState({ open: null });

/** Asks before the run is stopped: that cannot be undone. */
export const askStop = (): void => openDialog("stop");
