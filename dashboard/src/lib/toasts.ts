/** Messages at the bottom right: done ones go by themselves, refused and failed ones stay until closed. */
import { create } from "zustand";
import { newId } from "./ids";

export type ToastKind = "done" | "refused" | "failed";

export interface ToastAction {
  label: string;
  keys?: string;
  run: () => void;
}

export interface Toast {
  id: string;
  kind: ToastKind;
  /** What happened, in two or three words: "Step refused." */
  title: string;
  text?: string;
  action?: ToastAction;
}

export const MAX_TOASTS = 3;
export const DONE_STAYS_MS = 6_000;

interface Toasts {
  toasts: Toast[];
  show: (toast: Omit<Toast, "id">) => string;
  close: (id: string) => void;
}

export const useToasts = create<Toasts>()((set) => ({
  toasts: [],
  show: (toast) => {
    const id = newId();
    set(({ toasts }) => {
      // The same message twice says no more than once.
      const others = toasts.filter((one) => one.title !== toast.title || one.text !== toast.text);
      return { toasts: [...others, { ...toast, id }].slice(-MAX_TOASTS) };
    });
    return id;
  },
  close: (id) => set(({ toasts }) => ({ toasts: toasts.filter((toast) => toast.id !== id) })),
}));

export const showToast = (toast: Omit<Toast, "id">): string => useToasts.getState().show(toast);
