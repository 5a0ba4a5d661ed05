interface KeyCapProps {
  /** As the key list writes it: "Space", "→", "Ctrl K". */
  keys: string;
  /** On the filled button the cap is tinted by the text colour. */
  onFilled?: boolean;
  /** On a button that does nothing now. */
  off?: boolean;
}

/** The key that does the same as the control it stands on. */
export function KeyCap({ keys, onFilled = false, off = false }: KeyCapProps) {
  const look = off ? "bg-s3" : onFilled ? "bg-current/15" : "bg-s3 text-t2";
  return (
    <span aria-hidden="true" className={`rounded-chip px-1 font-sans text-label font-medium ${look}`}>
      {onFilled ? <span>{keys}</span> : keys}
    </span>
  );
}
