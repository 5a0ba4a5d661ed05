import { type ReactNode, useEffect, useId, useRef } from "react";
import { Button } from "./Button";

interface DialogProps {
  title: string;
  /** Hides the title from sight where the content speaks for itself (the palette). */
  titleHidden?: boolean;
  onClose: () => void;
  children: ReactNode;
  className?: string;
}

/** A modal layer. The browser's own dialog traps focus, closes on Esc and gives focus back. */
export function Dialog({ title, titleHidden, onClose, children, className = "w-[400px] p-4" }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    dialog?.querySelector<HTMLElement>("[data-autofocus]")?.focus();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Esc closes it; the click is for the ground around it
    <dialog
      ref={ref}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === ref.current && onClose()}
      className="m-auto max-h-[calc(100vh-64px)] max-w-[calc(100vw-32px)] rounded-layer bg-surface text-text shadow-layer backdrop:bg-[rgb(12_14_17/0.4)]"
    >
      <div className={className}>
        <h2 id={titleId} className={titleHidden ? "sr-only" : "text-bar font-semibold"}>
          {title}
        </h2>
        {children}
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  /** The question: "Stop bcl-novelty-k8?" */
  title: string;
  text: string;
  /** The way back: "Keep paused". Focus starts here. */
  safe: string;
  /** Verb and object: "Stop run". */
  verb: string;
  onConfirm: () => void;
  onClose: () => void;
}

/** One question, two verbs; only for what cannot be undone. */
export function ConfirmDialog({ title, text, safe, verb, onConfirm, onClose }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onClose} className="w-[296px] p-4">
      <p className="mt-1.5 text-body text-t2">{text}</p>
      <div className="mt-3 flex justify-end gap-2">
        <Button data-autofocus onClick={onClose}>
          {safe}
        </Button>
        <Button
          look="danger-filled"
          onClick={() => {
            onConfirm();
            onClose();
          }}
        >
          {verb}
        </Button>
      </div>
    </Dialog>
  );
}
