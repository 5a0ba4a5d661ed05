/** Sentences that several panels say. */
export const VIEW_ONLY = "This link is view-only";
export const NOT_RECORDED = "Not recorded: no page showed it while the run was live.";
export const CAPTURED_IN_VIEW = "Captured while this panel is in view. Take one step to fill it.";
export const NOTHING_CAPTURED = "Nothing captured for this step";
export const TOKEN_NOT_VALID =
  "The token in this link is not valid. Open the link that midstep printed in the terminal.";
export const NOT_UP_TO_DATE = "not up to date: the server does not answer";
export const NOTHING_TO_EXPORT = "Nothing to export";
export const PAUSE_FIRST = "Pause first";
export const FULL_KERNEL_NOT_STORED = "The full kernel was not stored";
