import type { BatchOut } from "@/api/types";

/** Masks of images, and the classes in them. */
export type MaskOut = NonNullable<BatchOut["mask"]>;
