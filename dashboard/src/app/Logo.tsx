/** The mark: a step, and the point between two of them. */
export function Logo() {
  return (
    <svg width="22" height="16" viewBox="0 0 22 16" role="img" aria-label="midstep">
      <path
        d="M2 14h9V2h9"
        fill="none"
        stroke="var(--text)"
        strokeWidth="2"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
      <circle cx="11" cy="8" r="2.75" fill="var(--accent)" />
    </svg>
  );
}
