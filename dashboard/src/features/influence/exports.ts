export { type Column, filesOf } from "@/ui/export/exportItems";
