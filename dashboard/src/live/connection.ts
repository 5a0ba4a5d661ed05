/** How fresh the page is, from the link's state and the age of the last message (design section 5). */
import type { Link } from "@/api/sharedStream";

export const STALE_AFTER_S = 2;
export const NOT_RESPONDING_AFTER_S = 10;

export type ConnectionStatus =
  | "connecting"
  | "live"
  | "view only"
  | "stale"
  | "reconnecting"
  | "not responding"
  | "closed"
  | "denied";

/** `ended`: the run had ended when the last message came, so that silence is nothing to worry about. */
export function connectionStatus(
  link: Link,
  ageS: number,
  canControl: boolean,
  ended: boolean,
): ConnectionStatus {
  if (link === "denied") return "denied";
  if (link === "lost" && ended) return "closed";
  if (link === "connecting") return ageS >= NOT_RESPONDING_AFTER_S ? "not responding" : "connecting";
  if (ageS >= NOT_RESPONDING_AFTER_S) return "not responding";
  if (link === "lost") return "reconnecting";
  if (ageS >= STALE_AFTER_S) return "stale";
  return canControl ? "live" : "view only";
}
